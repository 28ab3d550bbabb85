// Tests every operation, over every transport of this binary, on worlds of several sizes.
#include <gtest/gtest.h>

#include <random>

#include "tests/comm/operations.h"
#include "tests/comm/worlds.h"

namespace hawser::testing {
namespace operations_test {

class Worlds : public ::testing::TestWithParam<std::tuple<WorldKind, int32_t>> {
 protected:
  std::vector<std::shared_ptr<comm::Comm>> make() const {
    return std::get<0>(GetParam()).make(std::get<1>(GetParam()));
  }
};

TEST_P(Worlds, GiveTheReferencesBits) { expect_world(make(), check_every_operation); }

TEST_P(Worlds, GiveTheReferencesBitsForRandomCallsOverSeveralGroups) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  expect_world(make(), [&](comm::RankComm& rank) { check_random_calls(rank, seed, 60); });
}

std::vector<std::tuple<WorldKind, int32_t>> all_worlds() {
  std::vector<std::tuple<WorldKind, int32_t>> all;
  for (const WorldKind& kind : world_kinds()) {
    for (const int32_t ranks : kind.sizes) all.emplace_back(kind, ranks);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Transport, Worlds, ::testing::ValuesIn(all_worlds()), [](const auto& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::to_string(std::get<1>(info.param));
});

TEST(Worlds, AgreeByTreeWhateverTheirNumber) {
  for (const WorldKind& kind : world_kinds()) {
    SCOPED_TRACE(kind.name);
    for (const int32_t ranks : {6, 11}) expect_world(kind.make(ranks), check_agreements);
  }
}

TEST(Worlds, SumArraysLargerThanAnyStaging) {
  for (const WorldKind& kind : world_kinds()) {
    SCOPED_TRACE(kind.name);
    expect_world(kind.make(3), check_large);
  }
}

TEST(Worlds, SumLargeArraysInRecords) {
  for (const WorldKind& kind : world_kinds()) {
    SCOPED_TRACE(kind.name);
    expect_world(kind.make(4), check_large_sums_in_records);
  }
}

}  // namespace operations_test
}  // namespace hawser::testing
