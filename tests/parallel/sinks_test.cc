// Attention sinks on ranks: every layout computes what one rank does, and sinks of -infinity change no bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/harness/answers.h"
#include "tests/harness/near_one_rank.h"

namespace hawser::testing {
namespace sinks_test {

Problem problem_of(bool like_gpt2, bool documents) {
  Problem p;
  p.sinks = true, p.like_gpt2 = like_gpt2, p.documents = documents;
  p.optimizer = "sgd", p.heads = 8, p.kv_heads = like_gpt2 ? 8 : 4;
  return p;
}

TEST(Sinks, ComputeWhatOneRankDoes) {
  for (const bool like_gpt2 : {true, false})
    for (const Layout& layout : divided_layouts())
      expect_near_one_rank(problem_of(like_gpt2, !like_gpt2), layout, 3, 2e-5);
}

TEST(Sinks, StayNearOneRankInNarrowTypes) {
  for (const char* precision : {"bf16", "bf16_pure"})
    for (const Layout& layout : divided_layouts()) {
      Problem p = problem_of(true, true);
      p.precision = precision;
      expect_near_one_rank(p, layout, 1, 4e-2);
    }
}

bool is_sink(const std::string& name) { return name.ends_with(".sinks"); }

/// Sets all sinks to -infinity.
void end_sinks(LayoutRun* run) {
  for (const nn::Parameter& s : run->trainer().ranks().table().all()) {
    if (!is_sink(s.name)) continue;
    const std::vector<float> none(static_cast<size_t>(s.size), -std::numeric_limits<float>::infinity());
    run->trainer().tensors().set(train::TensorKind::kWeight, s.name, none.data(),
                                 none.size() * sizeof(float));
  }
}

/// Takes two steps and leaves the sinks out of the records. With `ended`, each sink is -infinity.
std::vector<StepRecord> steps_of(const Problem& p, const Layout& layout, bool ended) {
  LayoutRun run(p, layout);
  if (ended) end_sinks(&run);
  std::vector<StepRecord> records = {run.step(), run.step()};
  for (StepRecord& r : records) {
    const auto leave_out = [](auto& tensors) {
      std::erase_if(tensors, [](const auto& tensor) { return is_sink(tensor.first); });
    };
    leave_out(r.gradients), leave_out(r.weights);
    for (auto& state : r.states) leave_out(state);
  }
  return records;
}

/// Both models have no soft cap. The sinks are frozen, because no optimizer updates an infinite number.
TEST(Sinks, OfMinusInfinityChangeNoBit) {
  for (const char* precision : {"fp32", "bf16", "fp16"})
    for (Layout layout : divided_layouts()) {
      Problem p = problem_of(false, true);
      p.precision = precision, p.optimizer = "adamw", p.plain_scores = true;
      p.frozen_also = {"*.sinks"}, p.frozen = true;
      layout.dp_shard = 2, layout.stage = 3, layout.accumulation = 2;
      const std::vector<StepRecord> with = steps_of(p, layout, true);
      const std::vector<StepRecord> finite = steps_of(p, layout, false);
      p.sinks = false, p.frozen_also.clear();
      const std::vector<StepRecord> without = steps_of(p, layout, false);
      EXPECT_EQ(first_difference(with, without), "") << precision << " " << layout.name();
      EXPECT_NE(first_difference(finite, without), "") << precision << " " << layout.name();
    }
}

TEST(Sinks, OfMinusInfinityHaveNoGradient) {
  for (const Layout& layout : divided_layouts()) {
    LayoutRun run(problem_of(true, false), layout);
    end_sinks(&run);
    const StepRecord record = run.step();
    for (const auto& [name, values] : record.gradients) {
      if (!is_sink(name)) continue;
      for (const float g : values) EXPECT_EQ(g, 0.0f) << name << " " << layout.name();
    }
  }
}

TEST(Sinks, AreInLogitsAndText) {
  const Problem p = problem_of(false, true);
  LayoutRun one(p, Layout());
  for (const Layout& layout : divided_layouts()) {
    LayoutRun ranks(p, layout);
    for (const int64_t cols : {12, 5}) {
      SCOPED_TRACE(layout.name());
      const Answers want = ask(one.trainer(), p, cols), got = ask(ranks.trainer(), p, cols);
      for (size_t i = 0; i < want.logits.size(); ++i) ASSERT_NEAR(got.logits[i], want.logits[i], 2e-5) << i;
      EXPECT_EQ(got.text, want.text);
    }
  }
}

/// Their gradients keep their bits if activations are recomputed, if weights are sharded, and if stages have
/// some layers each.
TEST(Sinks, KeepTheirBitsInEveryStageAndPipeline) {
  for (const char* precision : {"fp32", "bf16_pure"})
    for (const char* mode : {"ring", "gather", "ulysses"}) {
      Problem p = problem_of(false, true);
      p.precision = precision, p.optimizer = "adamw", p.tied = false;
      Layout ddp;
      ddp.cp = 2, ddp.cp_mode = mode, ddp.dp_shard = 2, ddp.accumulation = 2;
      const std::vector<StepRecord> expected = run_layout(p, ddp, 2);
      std::vector<Layout> others(4, ddp);
      others[0].stage = 3;
      others[1].recompute = R"({"policy": "full"})";
      others[2].recompute = R"({"policy": "selective", "arrays": ["qkv", "attention"]})";
      others[3].pp = 2, others[3].schedule = "zb_h1";
      for (const Layout& layout : others)
        EXPECT_EQ(first_difference(expected, run_layout(p, layout, 2)), "")
            << precision << " " << layout.name();
    }
}

}  // namespace sinks_test
}  // namespace hawser::testing
