// report_html: a function that writes the report of a run as one self-contained page.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/report/metric_row.h"
#include "bindings/cli/report/run_facts.h"

namespace hawser::cli {

/// Returns a page with loss, learning rate, gradient norm and throughput as SVG, a summary, the last samples
/// and the config. The page has no scripts and no links, and follows the reader's light or dark theme.
std::string report_html(const RunFacts& facts, const std::vector<MetricRow>& rows);

/// Returns the median of tokens per second over accepted steps, without the first step, which warms up
/// caches; NaN without steps.
double median_tokens_per_second(const std::vector<MetricRow>& rows);

}  // namespace hawser::cli
