// Agreement tests: ranks that were started with different configs all report it before anything else.
#include "engine/ranks/agreement.h"

#include <gtest/gtest.h>

#include <atomic>

#include "engine/base/error.h"
#include "engine/execute/agreed_error.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace agreement_test {

using kernels::CpuLevel;

train::Start start_of(const std::string& config, CpuLevel level = CpuLevel::kV3) {
  return {config, level, "cpu", ""};
}

/// Returns the error of every rank for these starts; "" if it has none.
std::vector<std::string> agree(const std::vector<train::Start>& starts) {
  std::vector<std::string> answers(starts.size());
  spawn_ranks(static_cast<int32_t>(starts.size()), [&](comm::RankComm& rank) {
    const auto r = static_cast<size_t>(rank.rank());
    try {
      train::agree_on_start(&rank, starts[r]);
    } catch (const train::AgreedError& e) {
      EXPECT_EQ(e.code(), Code::kConfigInvalid);
      answers[r] = e.message();
    }
  });
  return answers;
}

std::vector<std::string> agree_on(const std::vector<std::string>& configs) {
  std::vector<train::Start> starts;
  for (const std::string& config : configs) starts.push_back(start_of(config));
  return agree(starts);
}

TEST(Agreement, OfEqualRanksIsQuiet) {
  const std::string config = R"({"seed": 3, "model": {"layers": 2}})";
  EXPECT_EQ(agree_on({config, config, config}), std::vector<std::string>(3));
}

TEST(Agreement, MayDifferInWhatBelongsToAMachine) {
  EXPECT_EQ(
      agree_on({R"({"cpu": {"threads": 2}, "checkpoint": {"path": "/a"}})", R"({"cpu": {"threads": 8}})"}),
      std::vector<std::string>(2));
}

TEST(Agreement, NamesFieldRanksAndValuesOnEveryRank) {
  const std::string usual = R"({"optimizer": {"learning_rate": 0.1}})";
  for (const auto& [other, words] :
       {std::pair<std::string, std::string>{R"({"optimizer": {"learning_rate": 0.2}})",
                                            "/optimizer/learning_rate is 0.1 on rank 0 and 0.2 on rank 2"},
        {R"({"optimizer": {"learning_rate": 0.1}, "seed": 5})",
         "/seed is not set on rank 0 and 5 on rank 2"}}) {
    for (const std::string& answer : agree_on({usual, usual, other, usual}))
      EXPECT_NE(answer.find(words), std::string::npos) << answer;
  }
}

TEST(Agreement, NamesTheRankOnWhichAutoFoundAnotherDevice) {
  std::vector<train::Start> starts(3, start_of("{}"));
  for (train::Start& start : starts)
    start.device = "cuda", start.device_reason = "cuda, because H100 is there";
  starts[2].device = "cpu", starts[2].device_reason = "cpu, because there is no driver";
  for (const std::string& answer : agree(starts))
    for (const char* words :
         {"\"auto\" means cuda on rank 0 (cuda, because H100 is there)",
          "and cpu on rank 2 (cpu, because there is no driver)", "set /device to \"cpu\""})
      EXPECT_NE(answer.find(words), std::string::npos) << answer;
}

TEST(Agreement, TakesTheLowestLevelOfKernelsWhoeverHasIt) {
  const std::vector<CpuLevel> levels{CpuLevel::kV4Bf16, CpuLevel::kV4, CpuLevel::kV2, CpuLevel::kV3};
  for (size_t turn = 0; turn < levels.size(); ++turn)
    spawn_ranks(static_cast<int32_t>(levels.size()), [&](comm::RankComm& rank) {
      const size_t mine = (static_cast<size_t>(rank.rank()) + turn) % levels.size();
      EXPECT_EQ(train::agree_on_start(&rank, start_of("{}", levels[mine])), CpuLevel::kV2);
    });
}

TEST(Agreement, TakesTheGenericLevelIfProcessorsAreOfTwoArchitectures) {
  const std::vector<CpuLevel> levels{CpuLevel::kV4, CpuLevel::kNeon, CpuLevel::kV3};
  for (size_t turn = 0; turn < levels.size(); ++turn)
    spawn_ranks(static_cast<int32_t>(levels.size()), [&](comm::RankComm& rank) {
      const size_t mine = (static_cast<size_t>(rank.rank()) + turn) % levels.size();
      EXPECT_EQ(train::agree_on_start(&rank, start_of("{}", levels[mine])), CpuLevel::kGeneric);
    });
}

}  // namespace agreement_test
}  // namespace hawser::testing
