// Replica test: after twenty steps all copies of an element are equal, bit for bit: weights on every data-
// and context-parallel rank, parameters that tensor-parallel ranks replicate, and key/value heads that
// several of them share.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>

#include "engine/plan/plan.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace replicas_test {

/// Collects the weights of every parameter on this rank, by name and by the rank's share of the parameter.
void collect(const train::Rank& rank, const nn::Model& model, const plan::Plan& plan, int64_t tp,
             std::map<std::string, std::vector<std::string>>* copies) {
  for (const nn::Parameter& p : model.table().all()) {
    const parallel::GroupLayout& group = rank.layout().group(p.group);
    const plan::Slot& slot = plan.slot(plan::find_state(plan, plan::Role::kWeights, p.block));
    const char* const at =
        rank.arena()->data() + slot.offset + group.weights + p.offset * dtype_bytes(group.type);
    const int64_t shares = p.cut.shares(tp, 1), share = rank.number() % tp / (tp / shares);
    (*copies)[p.name + " share " + std::to_string(share)].emplace_back(
        at, static_cast<size_t>(rank.layout().share_of(p).elements() * dtype_bytes(group.type)));
  }
}

TEST(Replicas, AreEqualAfterTwentySteps) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const auto& [tp, cp, dp, stage] : {std::tuple<int64_t, int64_t, int64_t, int64_t>{2, 1, 2, 0},
                                            {4, 1, 1, 0},
                                            {4, 1, 2, 2},
                                            {1, 2, 2, 0},
                                            {1, 4, 1, 1},
                                            {2, 2, 2, 1}})
      for (const bool like_gpt2 : {true, false}) {
        const bool records = std::string(precision) != "bf16_pure" && dp * cp > 1;
        Problem problem;
        problem.precision = precision, problem.like_gpt2 = like_gpt2, problem.documents = !like_gpt2;
        Layout layout;
        layout.tp = tp, layout.cp = cp, layout.dp_shard = dp, layout.stage = stage;
        if (records && !like_gpt2) layout.quantized_gradients = stage == 0 ? "int4" : "int8";
        SCOPED_TRACE(layout.name() + " " + precision);
        LayoutRun run(problem, layout);
        for (int step = 0; step < 20; ++step) run.step();
        std::map<std::string, std::vector<std::string>> copies;
        std::mutex mutex;
        const train::Ranks& ranks = run.trainer().ranks();
        ranks.on_each([&](train::Rank& rank, int32_t) {
          const std::lock_guard lock(mutex);
          collect(rank, ranks.model(), ranks.first().plans().train, layout.tp, &copies);
        });
        for (const auto& [name, values] : copies) {
          EXPECT_GE(values.size(), static_cast<size_t>(dp * cp)) << name;
          for (const std::string& value : values) EXPECT_TRUE(value == values.front()) << name;
        }
      }
}

}  // namespace replicas_test
}  // namespace hawser::testing
