// Layouts and the worst load, for tests of expert-parallel ranks.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Returns a layout in which `dp` ranks divide rows and `ep` of them divide experts; `factor`:
/// /moe/rows_factor, 0 for the default.
inline Layout over(int64_t dp, int64_t ep, double factor = 0) {
  Layout layout;
  layout.dp_shard = dp, layout.ep = ep, layout.rows_factor = factor;
  return layout;
}

/// Sends all rows of every rank to the first experts: the router is zero, and ties go to the lower expert.
/// The model must have two layers of width 24.
inline void send_all_to_the_first(LayoutRun* run, int64_t experts) {
  const std::vector<float> zeros(static_cast<size_t>(experts) * 24, 0.0f);
  for (int layer = 0; layer < 2; ++layer)
    run->trainer().tensors().set(train::TensorKind::kWeight,
                                 fmt::format("blocks.{}.moe.router.weight", layer), zeros.data(),
                                 zeros.size() * sizeof(float));
}

}  // namespace hawser::testing
