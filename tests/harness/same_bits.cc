#include "tests/harness/same_bits.h"

#include <gtest/gtest.h>

namespace hawser::testing {

void expect_same_bits(const Problem& problem, const Layout& one, const Layout& other, int steps) {
  EXPECT_EQ(first_difference(run_layout(problem, one, steps), run_layout(problem, other, steps)), "")
      << one.name() << " and " << other.name() << "\n"
      << layout_config(problem, other);
}

}  // namespace hawser::testing
