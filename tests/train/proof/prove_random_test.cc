// `prove` succeeds for every config that trains: the bits of a layout are those of one rank that plays all of
// them, for random models, precisions, meshes, stages, orders of sums, wire types and optimizers.
// HAWSER_CONFIGS sets how many, HAWSER_SEED which.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/train/proof/prove_layout.h"
#include "tests/harness/random_config.h"

namespace hawser::testing {
namespace {

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(Prove, HoldsForEveryConfigThatTrains) {
  const auto today = std::chrono::system_clock::now().time_since_epoch() / std::chrono::hours(24);
  const uint64_t seed = number("HAWSER_SEED", static_cast<uint64_t>(today) * 1000);
  const uint64_t configs = number("HAWSER_CONFIGS", 40);
  std::printf("%llu configs from HAWSER_SEED=%llu on\n", static_cast<unsigned long long>(configs),
              static_cast<unsigned long long>(seed));
  for (uint64_t i = seed; i < seed + configs; ++i) {
    const std::string json = random_config(i);
    try {
      const auto proof = nlohmann::json::parse(train::prove_layout(config::ConfigTree::from_json(json), 2));
      EXPECT_TRUE(proof.at("equal").get<bool>()) << "HAWSER_SEED=" << i << ' ' << json << '\n'
                                                 << proof.at("first_difference");
      EXPECT_GT(proof.at("elements").get<int64_t>(), 0) << "HAWSER_SEED=" << i;
    } catch (const Error& error) {
      ADD_FAILURE() << "HAWSER_SEED=" << i << ' ' << json << '\n' << error.message();
    }
  }
}

}  // namespace
}  // namespace hawser::testing
