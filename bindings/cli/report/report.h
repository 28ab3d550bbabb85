// report.html: a run in one self-contained file.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/report/metric_row.h"
#include "bindings/cli/report/run_facts.h"

namespace hawser::cli {

/// The page: loss, learning rate, gradient norm and throughput as SVG, a summary, the last samples and the
/// config. It has no scripts and no links, and follows the reader's light or dark theme.
std::string report_html(const RunFacts& facts, const std::vector<MetricRow>& rows);

/// Median tokens per second over accepted steps, without the first (which warms up caches); NaN without
/// steps.
double median_tokens_per_second(const std::vector<MetricRow>& rows);

}  // namespace hawser::cli
