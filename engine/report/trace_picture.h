// Trace picture: the lanes of a step as an SVG image, with a band for each rank and a row for each lane. A
// column of half a pixel has the colour of what ran in it longest, so the image of a step with millions of
// instructions is no larger than that of a short one. On other lanes than compute, anything that ran hides
// the wait beside it, because most messages are shorter than a column.
#pragma once

#include <string>
#include <vector>

#include "engine/report/trace_report.h"

namespace hawser::train {

/// Returns <svg>...</svg>. `title`: its heading, plain text. The time axis begins with the first rank.
std::string trace_picture(const std::vector<TracedRank>& ranks, const std::string& title);

}  // namespace hawser::train
