// Recompute bits: runs of one problem and layout with different sections `recompute` are compared bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Expects that none of the sections changes a bit of the run without one.
inline void expect_recompute_bits(const Problem& problem, const Layout& layout,
                                  const std::vector<const char*>& sections, int steps) {
  const std::vector<StepRecord> expected = run_layout(problem, layout, steps);
  for (const char* section : sections) {
    Layout again = layout;
    again.recompute = section;
    EXPECT_EQ(first_difference(expected, run_layout(problem, again, steps)), "") << again.name();
  }
}

}  // namespace hawser::testing
