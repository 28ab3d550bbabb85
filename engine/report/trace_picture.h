// Trace picture: the lanes of a step as an SVG image, with a band for each rank and a row for each lane. A
// column of half a pixel has the colour of what ran in it longest, so the image of a step with millions of
// instructions is no larger than that of a short one. In the rows of other lanes than compute, a column in
// which anything ran never has the colour of waits, because most messages are shorter than a column.
#pragma once

#include <string>
#include <vector>

#include "engine/report/trace_report.h"

namespace hawser::train {

/// Returns <svg>...</svg>. `title`: its heading, plain text. The time axis begins when the first rank begins.
std::string trace_picture(const std::vector<TracedRank>& ranks, const std::string& title);

}  // namespace hawser::train
