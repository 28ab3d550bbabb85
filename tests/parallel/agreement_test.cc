// Ranks that were started differently find out before anything else, all of them.
#include "engine/train/agreement.h"

#include <gtest/gtest.h>

#include <atomic>

#include "engine/base/error.h"
#include "engine/train/executor.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

/// What every rank says to these configs and levels; "" where it agrees.
std::vector<std::string> agree(const std::vector<std::string>& configs,
                               const std::vector<std::string>& levels) {
  std::vector<std::string> answers(configs.size());
  spawn_ranks(static_cast<int32_t>(configs.size()), [&](comm::RankComm& rank) {
    const auto r = static_cast<size_t>(rank.rank());
    try {
      train::agree_on_config(&rank, configs[r], levels[r]);
    } catch (const train::AgreedError& e) {
      EXPECT_EQ(e.code(), Code::kConfigInvalid);
      answers[r] = e.message();
    }
  });
  return answers;
}

TEST(Agreement, OfEqualRanksIsQuiet) {
  const std::string config = R"({"seed": 3, "model": {"layers": 2}})";
  EXPECT_EQ(agree({config, config, config}, {"v4", "v4", "v4"}), std::vector<std::string>(3));
}

TEST(Agreement, MayDifferInWhatBelongsToAMachine) {
  EXPECT_EQ(agree({R"({"cpu": {"threads": 2}, "checkpoint": {"path": "/a"}})", R"({"cpu": {"threads": 8}})"},
                  {"v4", "v4"}),
            std::vector<std::string>(2));
}

TEST(Agreement, NamesFieldRanksAndValuesOnEveryRank) {
  const std::string usual = R"({"optimizer": {"learning_rate": 0.1}})";
  for (const auto& [other, words] :
       {std::pair<std::string, std::string>{R"({"optimizer": {"learning_rate": 0.2}})",
                                            "/optimizer/learning_rate is 0.1 on rank 0 and 0.2 on rank 2"},
        {R"({"optimizer": {"learning_rate": 0.1}, "seed": 5})",
         "/seed is not set on rank 0 and 5 on rank 2"}}) {
    for (const std::string& answer : agree({usual, usual, other, usual}, {"v4", "v4", "v4", "v4"}))
      EXPECT_NE(answer.find(words), std::string::npos) << answer;
  }
}

TEST(Agreement, IncludesTheKernels) {
  for (const std::string& answer : agree({"{}", "{}"}, {"x86-64-v4", "x86-64-v3"})) {
    EXPECT_NE(answer.find("rank 1 with x86-64-v3"), std::string::npos) << answer;
    EXPECT_NE(answer.find("/cpu/max_isa"), std::string::npos) << answer;
  }
}

}  // namespace
}  // namespace hawser::testing
