// Promise L4: ranks that compute blocks or rows together add in a different order from one rank, so their
// bits differ, but only within a tolerance.
#pragma once

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Runs the layout, and one rank with the same rows. Expects tokens to be equal; losses, norms, gradients and
/// weights (of each tensor, relative to its length) may differ by at most `tolerance`.
void expect_near_one_rank(const Problem& problem, const Layout& layout, int steps, double tolerance);

/// Returns layouts of every mode of context parallelism, of tensor-parallel ranks, and of both.
std::vector<Layout> divided_layouts();

}  // namespace hawser::testing
