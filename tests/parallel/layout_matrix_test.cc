// Layout matrix test: checks promise L2 bit by bit. At equal dp, accumulation, `reduce` and sum_group, DDP,
// every ZeRO stage, HSDP, every reshard choice, prefetch distance and bucket size give the same losses,
// norms, gradients, weights and moments.
#include <gtest/gtest.h>

#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace layout_matrix_test {

/// Returns all layouts that must agree with DDP of this dp, accumulation and reduce.
std::vector<Layout> equal_layouts(int64_t dp, int64_t accumulation, const std::string& reduce) {
  std::vector<Layout> layouts;
  Layout base;
  base.accumulation = accumulation, base.reduce = reduce;
  const auto add = [&](auto change) {
    Layout l = base;
    change(l);
    layouts.push_back(l);
  };
  for (const int64_t stage : {1, 2, 3}) add([&](Layout& l) { l.dp_shard = dp, l.stage = stage; });
  add([&](Layout& l) { l.dp_replicate = dp; });
  add([&](Layout& l) { l.dp_shard = dp, l.bucket_bytes = 4096; });
  add([&](Layout& l) { l.dp_shard = dp, l.stage = 1, l.bucket_bytes = 1 << 14; });
  add([&](Layout& l) { l.dp_shard = dp, l.stage = 2, l.bucket_bytes = 1; });
  add([&](Layout& l) { l.dp_shard = dp, l.stage = 3, l.prefetch = 0; });
  add([&](Layout& l) { l.dp_shard = dp, l.stage = 3, l.reshard = "keep", l.prefetch = 3; });
  for (int64_t group = 2; group < dp; ++group)
    for (const int64_t prefetch : {1, 3})
      if (dp % group == 0)
        add([&](Layout& l) {
          l.dp_shard = dp, l.stage = 3, l.reshard = "group", l.reshard_group = group, l.prefetch = prefetch;
        });
  return layouts;
}

void expect_equal(const Problem& problem, int64_t dp, int64_t accumulation, const std::string& reduce,
                  int steps) {
  Layout ddp;
  ddp.dp_shard = dp, ddp.accumulation = accumulation, ddp.reduce = reduce;
  const std::vector<StepRecord> expected = run_layout(problem, ddp, steps);
  for (const Layout& layout : equal_layouts(dp, accumulation, reduce))
    EXPECT_EQ(first_difference(expected, run_layout(problem, layout, steps)), "") << layout.name();
}

TEST(LayoutMatrix, EveryStageGivesTheBitsOfDdp) {
  for (const int64_t dp : {2, 3, 4})
    for (const int64_t accumulation : {1, 2})
      for (const char* reduce : {"per_step", "per_micro_batch"})
        expect_equal(Problem(), dp, accumulation, reduce, 3);
}

TEST(LayoutMatrix, InBf16AndWithAHeadOfItsOwnAndFrozenParameters) {
  for (const bool tied : {true, false})
    for (const bool frozen : {false, true}) {
      Problem p;
      p.precision = "bf16", p.tied = tied, p.frozen = frozen;
      expect_equal(p, 3, 2, "per_micro_batch", 2);
      p.optimizer = "sgd";
      expect_equal(p, 2, 2, "per_step", 2);
    }
}

TEST(LayoutMatrix, InBf16Pure) {
  for (const bool tied : {true, false}) {
    Problem p;
    p.precision = "bf16_pure", p.tied = tied, p.frozen = !tied;
    expect_equal(p, 3, 2, "per_micro_batch", 2);
    expect_equal(p, 2, 1, "per_step", 2);
    p.optimizer = "sgd";
    expect_equal(p, 2, 2, "per_step", 2);
  }
}

TEST(LayoutMatrix, InFp16) {
  for (const bool tied : {true, false}) {
    Problem p;
    p.precision = "fp16", p.tied = tied, p.frozen = !tied, p.like_gpt2 = tied;
    expect_equal(p, 3, 2, "per_micro_batch", 2);
    p.optimizer = "sgd";
    expect_equal(p, 2, 2, "per_step", 2);
  }
}

TEST(LayoutMatrix, InFp8) {
  for (const char* fp8 : {R"({"recipe": "current"})", R"({"recipe": "blocks"})", R"({"history": 2})"})
    for (const bool tied : {true, false}) {
      Problem p;
      p.precision = "fp8", p.fp8 = fp8, p.tied = tied, p.frozen = !tied, p.like_gpt2 = tied;
      expect_equal(p, 3, 2, "per_micro_batch", 3);
      p.optimizer = "sgd";
      expect_equal(p, 2, 2, "per_step", 3);
    }
}

TEST(LayoutMatrix, HybridShardsSumLikeDdpWithItsSumGroup) {
  for (const char* precision : {"fp32", "bf16_pure"}) {
    for (const char* reduce : {"per_step", "per_micro_batch"}) {
      Problem p;
      p.precision = precision;
      Layout ddp;
      ddp.dp_shard = 4, ddp.accumulation = 2, ddp.sum_group = 2, ddp.reduce = reduce;
      const std::vector<StepRecord> expected = run_layout(p, ddp, 3);
      for (const int64_t stage : {1, 2, 3}) {
        Layout l = ddp;
        l.dp_replicate = 2, l.dp_shard = 2, l.stage = stage;
        EXPECT_EQ(first_difference(expected, run_layout(p, l, 3)), "") << precision << " " << l.name();
      }
    }
  }
}

TEST(LayoutMatrix, NarrowGradientsAreRoundedAlikeEverywhere) {
  Layout ddp;
  ddp.dp_shard = 4, ddp.sum_group = 2, ddp.gradient_type = "bf16", ddp.accumulation = 2;
  const std::vector<StepRecord> expected = run_layout(Problem(), ddp, 2);
  for (const int64_t stage : {1, 2, 3}) {
    Layout l = ddp;
    l.stage = stage, l.sum_group = 0, l.dp_replicate = 2, l.dp_shard = 2;
    EXPECT_EQ(first_difference(expected, run_layout(Problem(), l, 2)), "") << l.name();
  }
}

/// Checks promise L3: one tree sums micro-batches, however ranks divide them.
TEST(LayoutMatrix, UnderTheTreeEveryDegreeGivesTheBitsOfOneRank) {
  Layout serial;
  serial.accumulation = 8, serial.tree = true;
  const std::vector<StepRecord> expected = run_layout(Problem(), serial, 3);
  for (const int64_t dp : {2, 4, 8})
    for (const int64_t stage : {0, 1, 2, 3}) {
      Layout l = serial;
      l.dp_shard = dp, l.accumulation = 8 / dp, l.stage = stage;
      EXPECT_EQ(first_difference(expected, run_layout(Problem(), l, 3)), "") << l.name();
    }
}

}  // namespace layout_matrix_test
}  // namespace hawser::testing
