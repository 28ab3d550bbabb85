// Data parallelism test: tests the pass: which gradients are reduced together, and golden plans of every
// strategy.
#include "engine/parallel/data_parallel.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace data_parallel_test {

using testing::PlannedRank;
using testing::Setting;
using testing::text_of;

using Buckets = std::vector<std::vector<int32_t>>;

TEST(GradientBuckets, CloseWhenTheyHoldTheirBytes) {
  const std::vector<int64_t> bytes = {50, 100, 100, 100, 100, 100, 30};
  EXPECT_EQ(gradient_buckets(bytes, 200, 200), (Buckets{{6, 5, 4}, {3, 2}, {1, 0}}));
  EXPECT_EQ(gradient_buckets(bytes, 200, 30), (Buckets{{6}, {5, 4}, {3, 2}, {1, 0}}));
  EXPECT_EQ(gradient_buckets(bytes, 201, 31), (Buckets{{6, 5}, {4, 3, 2}, {1, 0}}));
  EXPECT_EQ(gradient_buckets(bytes, 1, 1), (Buckets{{6}, {5}, {4}, {3}, {2}, {1}, {0}}));
  EXPECT_EQ(gradient_buckets(bytes, 1 << 20, 1 << 20), (Buckets{{6, 5, 4, 3, 2, 1, 0}}));
  EXPECT_EQ(gradient_buckets({0, 0, 70, 0, 20}, 200, 10), (Buckets{{4}, {2}}))
      << "frozen blocks do not travel";
  EXPECT_TRUE(gradient_buckets({0, 0}, 200, 10).empty());
}

TEST(GradientBuckets, HoldEveryBlockWithGradientsOnceFromTheHeadDown) {
  constexpr uint32_t kSeed = 23;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> bytes(1 + random() % 20);
    for (int64_t& b : bytes) b = random() % 4 == 0 ? 0 : static_cast<int64_t>(1 + random() % 1000);
    const auto full = static_cast<int64_t>(1 + random() % 3000);
    const int64_t first = 1 + static_cast<int64_t>(random()) % full;
    const Buckets buckets = gradient_buckets(bytes, full, first);
    std::vector<int32_t> expected, blocks;
    for (size_t b = bytes.size(); b-- > 0;)
      if (bytes[b] > 0) expected.push_back(static_cast<int32_t>(b));
    for (size_t k = 0; k < buckets.size(); ++k) {
      int64_t held = 0, before_last = 0;
      for (const int32_t b : buckets[k]) {
        blocks.push_back(b);
        before_last = held;
        held += bytes[static_cast<size_t>(b)];
      }
      const int64_t limit = k == 0 ? first : full;
      ASSERT_LT(before_last, limit) << "bucket " << k << " closed late, seed " << kSeed << ", round "
                                    << round;
      const bool full_or_last = held >= limit || k + 1 == buckets.size();
      ASSERT_TRUE(full_or_last) << "bucket " << k << " closed early, seed " << kSeed << ", round " << round;
    }
    ASSERT_EQ(blocks, expected) << "seed " << kSeed << ", round " << round;
  }
}

/// Returns a model of one block in which every block is a bucket of its own.
Setting one_block(int64_t stage, int64_t shards, int64_t replicas, int32_t micro_batches, bool each) {
  Setting s;
  s.strategy.stage = stage;
  s.strategy.shards = shards, s.strategy.replicas = replicas;
  s.strategy.per_micro_batch = each;
  s.strategy.bucket_bytes = s.strategy.first_bucket_bytes = 1;
  s.micro_batches = micro_batches;
  s.layers = 1;
  return s;
}

TEST(DataParallelPlan, ReducesAndGathersWholeGradientsUnderDdp) {
  EXPECT_EQ(text_of(PlannedRank(one_block(0, 2, 1, 2, false)).train()),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "LOAD_MICRO_BATCH -1 1: -> batch.1\n"
            "COUNT_TOKENS -1 -1: batch.0 batch.1 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 -> losses.0 dx.0 gradients.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0\n"
            "FORWARD 0 1: batch.1 weights.0 -> x1.1\n"
            "FORWARD 1 1: x1.1 batch.1 weights.1 -> x2.1 saved1.1\n"
            "LOSS 2 1: x2.1 batch.1 scalars weights.2 +> losses.1 dx.1 gradients.2\n"
            "~ REDUCE_GRAD -1 -1 #0: gradients.2 -> gradients.2\n"
            "~ GATHER_GRAD -1 -1 #0: gradients.2 -> gradients.2\n"
            "BACKWARD 1 1: x1.1 saved1.1 batch.1 weights.1 +> dx.1 gradients.1\n"
            "~ REDUCE_GRAD -1 -1 #1: gradients.1 -> gradients.1\n"
            "~ GATHER_GRAD -1 -1 #1: gradients.1 -> gradients.1\n"
            "BACKWARD 0 1: batch.1 +> dx.1 gradients.0\n"
            "~ REDUCE_GRAD -1 -1 #2: gradients.0 -> gradients.0\n"
            "~ GATHER_GRAD -1 -1 #2: gradients.0 -> gradients.0\n"
            "GRAD_NORM 2 -1: gradients.2 -> norm\n"
            "GRAD_NORM 1 -1: gradients.1 -> norm\n"
            "GRAD_NORM 0 -1: gradients.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradients.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "OPTIMIZER_STEP 1 -1: gradients.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "OPTIMIZER_STEP 2 -1: gradients.2 scalars -> weights.2 moment1.2 moment2.2\n");
}

TEST(DataParallelPlan, ReducesTiedGradientsOnceTheyAreJoinedInOneBucket) {
  Setting s = one_block(0, 2, 1, 1, false);
  s.tied = true;
  s.strategy.bucket_bytes = s.strategy.first_bucket_bytes = 1 << 20;
  EXPECT_EQ(
      text_of(PlannedRank(s).train()),
      "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
      "COUNT_TOKENS -1 -1: batch.0 -> scalars\n"
      "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
      "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
      "LOSS 2 0: x2.0 batch.0 scalars weights.2 weights.0 -> losses.0 dx.0 gradients.2 gradients.0\n"
      "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1\n"
      "BACKWARD 0 0: batch.0 -> dx.0 gradients.0 lookup_gradient\n"
      "JOIN_HEAD_GRAD 0 0: lookup_gradient +> gradients.0\n"
      "~ REDUCE_GRAD -1 -1 #0: gradients.2 gradients.1 gradients.0 -> gradients.2 gradients.1 gradients.0\n"
      "~ GATHER_GRAD -1 -1 #0: gradients.2 gradients.1 gradients.0 -> gradients.2 gradients.1 gradients.0\n"
      "GRAD_NORM 2 -1: gradients.2 -> norm\n"
      "GRAD_NORM 1 -1: gradients.1 -> norm\n"
      "GRAD_NORM 0 -1: gradients.0 -> norm\n"
      "GRAD_NORM -1 -1: norm -> norm\n"
      "durable\n"
      "OPTIMIZER_STEP 0 -1: gradients.0 scalars -> weights.0 moment1.0 moment2.0\n"
      "OPTIMIZER_STEP 1 -1: gradients.1 scalars -> weights.1 moment1.1 moment2.1\n"
      "OPTIMIZER_STEP 2 -1: gradients.2 scalars -> weights.2 moment1.2 moment2.2\n");
}

TEST(DataParallelPlan, SendsBackUpdatedWeightsUnderZero1) {
  EXPECT_EQ(text_of(PlannedRank(one_block(1, 2, 1, 1, false)).train()),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "COUNT_TOKENS -1 -1: batch.0 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 -> losses.0 dx.0 gradients.2\n"
            "~ REDUCE_GRAD -1 -1 #0: gradients.2 -> gradients.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1\n"
            "~ REDUCE_GRAD -1 -1 #1: gradients.1 -> gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0\n"
            "~ REDUCE_GRAD -1 -1 #2: gradients.0 -> gradients.0\n"
            "GRAD_NORM 2 -1: gradients.2 -> norm\n"
            "GRAD_NORM 1 -1: gradients.1 -> norm\n"
            "GRAD_NORM 0 -1: gradients.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradients.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "~ UNSHARD -1 -1 #2: -> weights.0\n"
            "OPTIMIZER_STEP 1 -1: gradients.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "~ UNSHARD -1 -1 #1: -> weights.1\n"
            "OPTIMIZER_STEP 2 -1: gradients.2 scalars -> weights.2 moment1.2 moment2.2\n"
            "~ UNSHARD -1 -1 #0: -> weights.2\n");
}

TEST(DataParallelPlan, HoldsWholeGradientsToTheLastMicroBatchUnderZero2PerStep) {
  EXPECT_EQ(text_of(PlannedRank(one_block(2, 2, 1, 2, false)).train()),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "LOAD_MICRO_BATCH -1 1: -> batch.1\n"
            "COUNT_TOKENS -1 -1: batch.0 batch.1 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 -> losses.0 dx.0 gradients.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0\n"
            "FORWARD 0 1: batch.1 weights.0 -> x1.1\n"
            "FORWARD 1 1: x1.1 batch.1 weights.1 -> x2.1 saved1.1\n"
            "LOSS 2 1: x2.1 batch.1 scalars weights.2 +> losses.1 dx.1 gradients.2\n"
            "~ REDUCE_GRAD -1 -1 #0: gradients.2 -> gradients.2\n"
            "BACKWARD 1 1: x1.1 saved1.1 batch.1 weights.1 +> dx.1 gradients.1\n"
            "~ REDUCE_GRAD -1 -1 #1: gradients.1 -> gradients.1\n"
            "BACKWARD 0 1: batch.1 +> dx.1 gradients.0\n"
            "~ REDUCE_GRAD -1 -1 #2: gradients.0 -> gradients.0\n"
            "GRAD_NORM 2 -1: gradients.2 -> norm\n"
            "GRAD_NORM 1 -1: gradients.1 -> norm\n"
            "GRAD_NORM 0 -1: gradients.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradients.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "~ UNSHARD -1 -1 #2: -> weights.0\n"
            "OPTIMIZER_STEP 1 -1: gradients.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "~ UNSHARD -1 -1 #1: -> weights.1\n"
            "OPTIMIZER_STEP 2 -1: gradients.2 scalars -> weights.2 moment1.2 moment2.2\n"
            "~ UNSHARD -1 -1 #0: -> weights.2\n");
}

TEST(DataParallelPlan, GivesWholeGradientsAPlaceForAWhileUnderZero2PerMicroBatch) {
  EXPECT_EQ(text_of(PlannedRank(one_block(2, 2, 1, 2, true)).train()),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "LOAD_MICRO_BATCH -1 1: -> batch.1\n"
            "COUNT_TOKENS -1 -1: batch.0 batch.1 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 -> losses.0 dx.0 gradients.2.0\n"
            "~ REDUCE_GRAD -1 0 #0: gradients.2.0 -> gradient_shards.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1.0\n"
            "~ REDUCE_GRAD -1 0 #1: gradients.1.0 -> gradient_shards.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0.0\n"
            "~ REDUCE_GRAD -1 0 #2: gradients.0.0 -> gradient_shards.0\n"
            "FORWARD 0 1: batch.1 weights.0 -> x1.1\n"
            "FORWARD 1 1: x1.1 batch.1 weights.1 -> x2.1 saved1.1\n"
            "LOSS 2 1: x2.1 batch.1 scalars weights.2 -> losses.1 dx.1 gradients.2.1\n"
            "~ REDUCE_GRAD -1 1 #0: gradients.2.1 +> gradient_shards.2\n"
            "BACKWARD 1 1: x1.1 saved1.1 batch.1 weights.1 -> dx.1 gradients.1.1\n"
            "~ REDUCE_GRAD -1 1 #1: gradients.1.1 +> gradient_shards.1\n"
            "BACKWARD 0 1: batch.1 -> dx.1 gradients.0.1\n"
            "~ REDUCE_GRAD -1 1 #2: gradients.0.1 +> gradient_shards.0\n"
            "GRAD_NORM 2 -1: gradient_shards.2 -> norm\n"
            "GRAD_NORM 1 -1: gradient_shards.1 -> norm\n"
            "GRAD_NORM 0 -1: gradient_shards.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradient_shards.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "~ UNSHARD -1 -1 #2: -> weights.0\n"
            "OPTIMIZER_STEP 1 -1: gradient_shards.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "~ UNSHARD -1 -1 #1: -> weights.1\n"
            "OPTIMIZER_STEP 2 -1: gradient_shards.2 scalars -> weights.2 moment1.2 moment2.2\n"
            "~ UNSHARD -1 -1 #0: -> weights.2\n");
}

TEST(DataParallelPlan, SumsShardsThenReplicasUnderHsdp) {
  EXPECT_EQ(text_of(PlannedRank(one_block(1, 2, 2, 1, false)).train()),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "COUNT_TOKENS -1 -1: batch.0 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 -> losses.0 dx.0 gradients.2\n"
            "~ REDUCE_GRAD -1 -1 #0: gradients.2 -> gradients.2\n"
            "~ REDUCE_REPLICAS -1 -1 #0: gradients.2 -> gradients.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1\n"
            "~ REDUCE_GRAD -1 -1 #1: gradients.1 -> gradients.1\n"
            "~ REDUCE_REPLICAS -1 -1 #1: gradients.1 -> gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0\n"
            "~ REDUCE_GRAD -1 -1 #2: gradients.0 -> gradients.0\n"
            "~ REDUCE_REPLICAS -1 -1 #2: gradients.0 -> gradients.0\n"
            "GRAD_NORM 2 -1: gradients.2 -> norm\n"
            "GRAD_NORM 1 -1: gradients.1 -> norm\n"
            "GRAD_NORM 0 -1: gradients.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradients.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "~ UNSHARD -1 -1 #2: -> weights.0\n"
            "OPTIMIZER_STEP 1 -1: gradients.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "~ UNSHARD -1 -1 #1: -> weights.1\n"
            "OPTIMIZER_STEP 2 -1: gradients.2 scalars -> weights.2 moment1.2 moment2.2\n"
            "~ UNSHARD -1 -1 #0: -> weights.2\n");
}

TEST(DataParallelPlan, SumsReplicasOfEachMicroBatchUnderHsdpPerMicroBatch) {
  EXPECT_EQ(text_of(PlannedRank(one_block(2, 2, 2, 2, true)).train()),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "LOAD_MICRO_BATCH -1 1: -> batch.1\n"
            "COUNT_TOKENS -1 -1: batch.0 batch.1 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 -> losses.0 dx.0 gradients.2.0\n"
            "~ REDUCE_GRAD -1 0 #0: gradients.2.0 -> shard_sums.2.0\n"
            "~ REDUCE_REPLICAS -1 0 #0: shard_sums.2.0 -> gradient_shards.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1.0\n"
            "~ REDUCE_GRAD -1 0 #1: gradients.1.0 -> shard_sums.1.0\n"
            "~ REDUCE_REPLICAS -1 0 #1: shard_sums.1.0 -> gradient_shards.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0.0\n"
            "~ REDUCE_GRAD -1 0 #2: gradients.0.0 -> shard_sums.0.0\n"
            "~ REDUCE_REPLICAS -1 0 #2: shard_sums.0.0 -> gradient_shards.0\n"
            "FORWARD 0 1: batch.1 weights.0 -> x1.1\n"
            "FORWARD 1 1: x1.1 batch.1 weights.1 -> x2.1 saved1.1\n"
            "LOSS 2 1: x2.1 batch.1 scalars weights.2 -> losses.1 dx.1 gradients.2.1\n"
            "~ REDUCE_GRAD -1 1 #0: gradients.2.1 -> shard_sums.2.1\n"
            "~ REDUCE_REPLICAS -1 1 #0: shard_sums.2.1 +> gradient_shards.2\n"
            "BACKWARD 1 1: x1.1 saved1.1 batch.1 weights.1 -> dx.1 gradients.1.1\n"
            "~ REDUCE_GRAD -1 1 #1: gradients.1.1 -> shard_sums.1.1\n"
            "~ REDUCE_REPLICAS -1 1 #1: shard_sums.1.1 +> gradient_shards.1\n"
            "BACKWARD 0 1: batch.1 -> dx.1 gradients.0.1\n"
            "~ REDUCE_GRAD -1 1 #2: gradients.0.1 -> shard_sums.0.1\n"
            "~ REDUCE_REPLICAS -1 1 #2: shard_sums.0.1 +> gradient_shards.0\n"
            "GRAD_NORM 2 -1: gradient_shards.2 -> norm\n"
            "GRAD_NORM 1 -1: gradient_shards.1 -> norm\n"
            "GRAD_NORM 0 -1: gradient_shards.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradient_shards.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "~ UNSHARD -1 -1 #2: -> weights.0\n"
            "OPTIMIZER_STEP 1 -1: gradient_shards.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "~ UNSHARD -1 -1 #1: -> weights.1\n"
            "OPTIMIZER_STEP 2 -1: gradient_shards.2 scalars -> weights.2 moment1.2 moment2.2\n"
            "~ UNSHARD -1 -1 #0: -> weights.2\n");
}

}  // namespace data_parallel_test
}  // namespace hawser::parallel
