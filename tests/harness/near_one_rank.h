// Ranks that compute blocks or rows together add in another order than one rank, so their bits differ; how
// far they may be apart is promise L4.
#pragma once

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Runs the layout, and one rank with the same rows. Expects tokens to be equal, and losses, norms, gradients
/// and weights (of each tensor, relative to its length) to differ by at most `tolerance`.
void expect_near_one_rank(const Problem& problem, const Layout& layout, int steps, double tolerance);

}  // namespace hawser::testing
