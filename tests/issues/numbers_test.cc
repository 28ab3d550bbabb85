// Tests counts that overflowed, memory planned for the wrong type, and tokens sampled from NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/assembly/engine_plans.h"
#include "engine/base/error.h"
#include "engine/comm/comm.h"
#include "engine/state/run_state.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace numbers_test {

using testing::ScratchFolder;
using testing::small_config;
using testing::write_tokens;
using train::Trainer;

constexpr const char* kTwoRanks = R"(, "mesh": {"dp_shard": 2}, "zero": {"stage": 3})";

class Numbers : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> trainer(const std::string& precision, const std::string& more = "") {
    const auto ranks = more == kTwoRanks ? comm::make_local(2) : nullptr;
    return Trainer::create(small_config(tokens_, precision, 1, more), false, &cancel_, ranks);
  }

  const ScratchFolder folder_;
  const std::string tokens_ = write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

/// 2305843009213693953 x 8 rows overflowed to 8 rows.
TEST_F(Numbers, AnyNumberOfBatchesIsAtMostAllOfTheValidationData) {
  for (const char* more : {"", kTwoRanks}) {
    const auto t = trainer("fp32", more);
    const train::Evaluation all = t->inference().eval(nullptr, 0), two = t->inference().eval(nullptr, 2);
    EXPECT_GT(all.tokens, two.tokens);
    for (const int64_t batches : {int64_t{1} << 40, int64_t{2305843009213693953},
                                  int64_t{3074457345618258603}, std::numeric_limits<int64_t>::max()}) {
      const train::Evaluation e = t->inference().eval(nullptr, batches);
      EXPECT_EQ(e.tokens, all.tokens) << batches;
      EXPECT_EQ(e.loss, all.loss) << batches;
    }
  }
}

TEST_F(Numbers, NoTokenFollowsFromLogitsThatAreNotFinite) {
  for (const char* more : {"", kTwoRanks})
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const auto t = trainer("fp32", more);
      const std::vector<float> norm(40, bad);
      t->tensors().set(train::TensorKind::kWeight, "final_norm.weight", norm.data(),
                       norm.size() * sizeof(float));
      const int32_t prompt[] = {1, 2, 3};
      for (const auto& [temperature, top_k, top_p] :
           {std::tuple{0.0, 0, 1.0}, {1.0, 0, 1.0}, {1.0, 4, 1.0}, {0.7, 0, 0.5}}) {
        train::GenerateRequest request;
        request.prompt = prompt, request.prompt_length = 3, request.max_tokens = 4;
        request.temperature = temperature, request.top_k = top_k, request.top_p = top_p;
        int delivered = 0;
        try {
          t->inference().generate(request, [&](int32_t) { return ++delivered > 0; });
          ADD_FAILURE() << "no error; " << delivered << " tokens";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::kNumeric) << error.message();
          EXPECT_NE(error.message().find("the logits after 3 tokens are not finite"), std::string::npos)
              << error.message();
        }
        EXPECT_EQ(delivered, 0);
      }
    }
}

/// Keys and values are stored in the type of products, but memory for f32 was planned for every precision.
TEST_F(Numbers, CachesOfGenerationHaveTheTypeOfProducts) {
  for (const auto& [precision, element] : {std::pair{"fp32", 4}, {"bf16", 2}, {"bf16_pure", 2}}) {
    const train::Assembly a = train::assemble(small_config(tokens_, precision));
    const nn::Model model(a.config.model, true, {});
    const train::EnginePlans plans =
        train::make_plans(model, a.config, {&train::choose_kernels(a.config), 1, true}, true);
    int caches = 0;
    for (const plan::Slot& slot : plans.generate.slots) {
      if (slot.name.rfind("kv", 0) != 0) continue;
      EXPECT_EQ(slot.bytes, 2 * 24 * 2 * 10 * element) << precision << ' ' << slot.name;
      ++caches;
    }
    EXPECT_EQ(caches, 2);
  }
}

/// Generation with caches equals computing the complete window, so nothing is stored outside the caches.
TEST_F(Numbers, NarrowCachesGiveTheTokensOfTheWholeWindow) {
  const auto t = trainer("bf16");
  for (int step = 0; step < 20; ++step) t->train_step();
  std::vector<int32_t> text = {3, 1, 4};
  train::GenerateRequest request;
  request.prompt = text.data(), request.prompt_length = 3, request.max_tokens = 20;
  request.temperature = 0, request.top_p = 1;
  std::vector<int32_t> made;
  t->inference().generate(request, [&](int32_t token) { return made.push_back(token), true; });
  ASSERT_EQ(made.size(), 20u);
  text.insert(text.end(), made.begin(), made.end());
  const auto n = static_cast<int64_t>(text.size());
  std::vector<float> logits(static_cast<size_t>(n * 53));
  t->inference().forward({1, n, text.data(), nullptr, nullptr}, logits.data(), logits.size() * sizeof(float));
  for (size_t i = 3; i < text.size(); ++i) {
    const float* const row = logits.data() + (i - 1) * 53;
    EXPECT_GE(row[text[i]], *std::max_element(row, row + 53) - 0.05f) << "token " << i;
  }
}

TEST_F(Numbers, CountsOfACheckpointLieWhereARunCanCountOn) {
  train::RunState state;
  state.samples = (int64_t{1} << 62) + 1;
  EXPECT_THROW((void)train::run_state_from_json(train::to_json(state)), Error);
  state.samples = -1;
  EXPECT_THROW((void)train::run_state_from_json(train::to_json(state)), Error);
  state.samples = 7;
  EXPECT_EQ(train::run_state_from_json(train::to_json(state)).samples, 7);
}

}  // namespace numbers_test
}  // namespace hawser
