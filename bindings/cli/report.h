// report.html: a run as one picture, in one file that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/metric_row.h"
#include "bindings/cli/run_facts.h"

namespace hawser::cli {

/// The page: loss, learning rate, gradient norm and throughput as SVG, a summary, the last samples, the
/// config. No script, no link; follows the reader's light or dark theme.
std::string report_html(const RunFacts& facts, const std::vector<MetricRow>& rows);

/// Median tokens per second over the accepted steps, without the first (which warms caches up); NaN for no
/// step.
double median_tokens_per_second(const std::vector<MetricRow>& rows);

}  // namespace hawser::cli
