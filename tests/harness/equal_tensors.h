// Whether two trainers hold the same tensors.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "engine/plan/state_table.h"
#include "engine/run/trainer.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {

/// Weights and what the optimizers keep of both are the same bits.
inline void expect_equal_tensors(const train::Trainer& a, const train::Trainer& b) {
  std::vector<train::TensorKind> kinds = {train::TensorKind::kWeight};
  for (size_t i = 0; i < plan::kStateCount; ++i) kinds.push_back(train::kind_of_state(i));
  for (const nn::Parameter& p : a.ranks().table().all())
    for (const train::TensorKind kind : kinds) {
      const bool kept = a.tensors().keeps(kind, p);
      EXPECT_EQ(kept, b.tensors().keeps(kind, b.ranks().table().at(p.name))) << p.name;
      if (!kept) continue;
      const auto size = static_cast<size_t>(p.size);
      EXPECT_EQ(tensor(a, kind, p.name, size), tensor(b, kind, p.name, size)) << p.name;
    }
}

}  // namespace hawser::testing
