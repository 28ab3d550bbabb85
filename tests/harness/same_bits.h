// Promise L2: two layouts of the same rows give the same bits.
#pragma once

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Runs both for `steps` steps. Expects losses, norms, raw gradients, weights and moments to be equal.
void expect_same_bits(const Problem& problem, const Layout& one, const Layout& other, int steps);

}  // namespace hawser::testing
