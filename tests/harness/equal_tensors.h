// Whether two trainers hold the same tensors.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "engine/run/trainer.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {

/// Weights and moments of both are the same bits.
inline void expect_equal_tensors(const train::Trainer& a, const train::Trainer& b) {
  using train::TensorKind;
  for (const nlohmann::json& p : nlohmann::json::parse(a.tensors().json()))
    for (const TensorKind kind : {TensorKind::kWeight, TensorKind::kMoment1, TensorKind::kMoment2}) {
      const auto name = p.at("name").get<std::string>();
      const auto size = p.at("count").get<size_t>();
      EXPECT_EQ(tensor(a, kind, name, size), tensor(b, kind, name, size)) << name;
    }
}

}  // namespace hawser::testing
