// Sum blocks test: sums over rows that come in parts have the bits of one call, on every level.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/include/table.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace sum_blocks_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;
using testing::TypedValues;

void run(const KernelTable& table, Matmul m, Stream& stream) {
  GuardedBuffer<uint8_t> workspace(table.matmul_workspace_bytes(m, stream.num_workers));
  m.workspace = workspace.data();
  table.matmul(m, stream);
  EXPECT_TRUE(workspace.intact()) << table.name << " k " << m.k << " in blocks of " << m.k_block;
}

/// Adds the product of rows [begin, end) of a and b to c, as a caller with parts does.
void add_rows(const KernelTable& table, const Matmul& all, const SumBlocks& blocks, float* segment_sum,
              int64_t begin, int64_t end, Stream& stream) {
  Matmul part = all;
  part.a = static_cast<const char*>(all.a) + begin * all.lda * dtype_bytes(all.a_type);
  part.b = static_cast<const char*>(all.b) + begin * all.ldb * dtype_bytes(all.b_type);
  part.k = end - begin, part.k_block = blocks.block;
  if (blocks.segment >= all.k) {
    part.accumulate = all.accumulate || begin > 0;
    return run(table, part, stream);
  }
  part.c = segment_sum;
  part.accumulate = begin % blocks.segment != 0;
  run(table, part, stream);
  if (end % blocks.segment != 0 && end != all.k) return;
  auto* const c = static_cast<float*>(all.c);
  table.add({c, c, segment_sum, all.m * all.n}, stream);
}

TEST(SumBlocks, ProductsInPartsHaveTheBitsOfOneProduct) {
  std::mt19937 random(5);
  for (const KernelTable* table : testing::kernel_tables())
    for (const DType type : {DType::kF32, DType::kBf16, DType::kF16})
      for (const int64_t k : {1, 100, 384, 500, 1001, 2000, 12001, 24999}) {
        const int64_t m = 13, n = 37;
        const bool accumulates = k % 2 == 0;
        TypedValues a(type, k * m), b(type, k * n);
        a.fill(random), b.fill(random);
        GuardedBuffer<float> whole(m * n), parts(m * n), segment(m * n);
        for (int64_t i = 0; i < m * n; ++i) whole[i] = parts[i] = accumulates ? 0.25f : 0.0f;
        Matmul all;
        all.a = a.data(), all.b = b.data(), all.a_type = all.b_type = type;
        all.m = all.lda = m, all.n = all.ldb = all.ldc = n, all.k = k;
        all.a_transposed = true, all.accumulate = accumulates;
        SerialStream stream(3, TaskOrder::kShuffled);
        all.c = whole.data();
        run(*table, all, stream);
        all.c = parts.data();
        const SumBlocks blocks = table->matmul_sum_blocks(type, k);
        EXPECT_LE(blocks.block, blocks.most);
        EXPECT_EQ(blocks.segment % blocks.block, 0);
        for (int64_t begin = 0, end = 0; begin < k; begin = end) {
          const int64_t segment_end = (begin / blocks.segment + 1) * blocks.segment;
          end = std::min({k, segment_end, begin + blocks.block * (1 + static_cast<int64_t>(random() % 3))});
          add_rows(*table, all, blocks, segment.data(), begin, end, stream);
        }
        EXPECT_TRUE(whole.same_bits(parts)) << table->name << " " << dtype_name(type) << " k " << k;
        EXPECT_TRUE(parts.intact() && segment.intact()) << table->name;
      }
}

TEST(SumBlocks, ColumnSumsInPartsHaveTheBitsOfOneSum) {
  std::mt19937 random(6);
  for (const KernelTable* table : testing::kernel_tables())
    for (const DType type : {DType::kF32, DType::kBf16})
      for (const int64_t rows : {1, 127, 128, 129, 700})
        for (const int64_t n : {3, 64, 201}) {
          TypedValues dy(type, rows * n);
          dy.fill(random);
          GuardedBuffer<float> whole(n), parts(n), open(n);
          SerialStream stream(2, TaskOrder::kDescending);
          ColumnSum sum;
          sum.dy = dy.data(), sum.type = type, sum.rows = rows, sum.n = sum.stride = n;
          GuardedBuffer<uint8_t> workspace(table->column_sum_workspace_bytes(sum, stream.num_workers));
          sum.workspace = workspace.data();
          sum.dbias = whole.data();
          table->column_sum(sum, stream);
          sum.dbias = parts.data(), sum.open = open.data();
          for (int64_t begin = 0, end = 0; begin < rows; begin = end) {
            end = std::min<int64_t>(rows, begin + 1 + static_cast<int64_t>(random() % 200));
            sum.dy = static_cast<const char*>(dy.data()) + begin * n * dtype_bytes(type);
            sum.rows = end - begin, sum.first = begin, sum.ends = end == rows, sum.accumulate = begin > 0;
            table->column_sum(sum, stream);
          }
          EXPECT_TRUE(whole.same_bits(parts)) << table->name << " rows " << rows << " n " << n;
          EXPECT_TRUE(parts.intact() && open.intact()) << table->name;
        }
}

}  // namespace sum_blocks_test
}  // namespace hawser::kernels
