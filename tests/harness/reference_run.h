// Reference run: the run that other layouts are compared with. A test often compares several layouts with the
// same one, so the records of the latest references are kept, and each is computed once.
#pragma once

#include <vector>

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Returns the records of run_layout. Use it for only one side of a comparison.
std::vector<StepRecord> reference_run(const Problem& problem, const Layout& layout, int steps);

}  // namespace hawser::testing
