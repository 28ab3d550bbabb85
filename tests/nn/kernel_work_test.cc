// Tests the work of attention: visible pairs, and bytes by the type of each operand.
#include "engine/nn/kernel_work.h"

#include <gtest/gtest.h>

namespace hawser::nn {
namespace kernel_work_test {

kernels::AttentionShape shape(int64_t q_offset, int64_t seq_q, int64_t k_offset, int64_t seq_k) {
  kernels::AttentionShape s;
  s.type = DType::kBf16;
  s.batch = 2, s.heads = 4, s.kv_heads = 2, s.head_dim = 8;
  s.q_offset = q_offset, s.seq_q = seq_q;
  s.k_offset = k_offset, s.seq_k = seq_k;
  return s;
}

/// Returns the pairs of one head of one batch row.
double pairs(const kernels::AttentionShape& s) {
  kernels::AttentionForward f;
  f.s = s;
  kernels::AttentionBackward b;
  b.s = s;
  const double forward = work_of(f).flops / (4 * 8 * 8), backward = work_of(b).flops / (10 * 8 * 8);
  EXPECT_EQ(forward, backward);
  return forward;
}

TEST(AttentionWork, CountsPairsThatSeeEachOther) {
  EXPECT_EQ(pairs(shape(0, 10, 0, 10)), 55);
  EXPECT_EQ(pairs(shape(7, 10, 7, 10)), 55);  // queries and keys are the same columns
  EXPECT_EQ(pairs(shape(9, 1, 0, 10)), 10);   // one query with a cache
  EXPECT_EQ(pairs(shape(20, 10, 5, 7)), 70);  // all keys come before the queries
  EXPECT_EQ(pairs(shape(0, 10, 10, 7)), 0);   // all keys come after the queries
  EXPECT_EQ(pairs(shape(0, 10, 8, 7)), 3);    // two queries see one and two keys
}

TEST(AttentionWork, CountsPairsInTheWindow) {
  kernels::AttentionShape s = shape(0, 10, 0, 10);
  s.window = 3;
  EXPECT_EQ(pairs(s), 27);
  s = shape(10, 10, 0, 10);
  s.window = 3;
  EXPECT_EQ(pairs(s), 3);
  s.q_offset = 12;
  EXPECT_EQ(pairs(s), 0);
}

TEST(AttentionWork, CountsBytesByType) {
  const int64_t q = 2 * 10 * 4 * 8, kv = 2 * 7 * 2 * 8;  // elements of q, and of k
  kernels::AttentionForward f;
  f.s = shape(20, 10, 5, 7);
  EXPECT_EQ(work_of(f).bytes, 2 * 2 * q + 2 * 2 * kv);
  f.f32_out = true;
  EXPECT_EQ(work_of(f).bytes, (2 + 4) * q + 2 * 2 * kv);
  f.merge = true;
  EXPECT_EQ(work_of(f).bytes, (2 + 2 * 4) * q + 2 * 2 * kv);
  kernels::AttentionBackward b;
  b.s = f.s;
  EXPECT_EQ(work_of(b).bytes, 4 * 2 * q + 2 * 2 * 2 * kv);
  b.f32_out = true;
  EXPECT_EQ(work_of(b).bytes, (3 * 2 + 4) * q + 2 * (2 + 4) * kv);
  b.accumulate_q = b.accumulate_kv = true;
  EXPECT_EQ(work_of(b).bytes, (3 * 2 + 2 * 4) * q + 2 * (2 + 2 * 4) * kv);
}

}  // namespace kernel_work_test
}  // namespace hawser::nn
