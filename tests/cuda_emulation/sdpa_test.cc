// Attention through the interface to cuDNN, by the CPU's kernels: which rows of the op-case table use it and
// with which results, the table of documents, and the fallback if a plan does not fit.
#include <gtest/gtest.h>

#include "kernels/cuda/table.h"
#include "tests/cuda_emulation/emulated_sdpa.h"
#include "tests/cuda_emulation/emulated_stream.h"
#include "tests/harness/run_op_case.h"

namespace hawser::testing {
namespace sdpa_test {

using cuda_emulation::EmulatedSdpa;
using kernels::cuda::SdpaShape;

struct LibraryStream : cuda_emulation::EmulatedStream {
  LibraryStream() { sdpa = &library; }
  EmulatedSdpa library;
};

bool has_word(const OpCase& c, const char* word) { return c.name.find(word) != std::string::npos; }

/// True for the cases that cuDNN supports: bf16, complete rows, keys and values of complete vectors, no cap,
/// no dropout.
bool belongs_to_library(const OpCase& c) {
  for (const char* word : {"one_token", "odd_head_dim", "grouped", "dropout", "softcap", "everything",
                           "cache", "values_of_1/", "values_of_12/"})
    if (has_word(c, word)) return false;
  return has_word(c, "/bf16");
}

class SdpaCases : public ::testing::TestWithParam<std::string> {};

TEST_P(SdpaCases, AgreeWithTheReference) {
  int64_t by_library = 0, by_ours = 0;
  for (const OpCase* c : cases_of(GetParam(), true)) {
    if (!has_word(*c, "/bf16")) continue;  // f32 never uses it: sdpa_shape
    SCOPED_TRACE(c->name);
    LibraryStream stream;
    expect_close(*c, run_fast(*c, kernels::cuda::cuda_kernels(), stream), run_reference(*c));
    EXPECT_EQ(stream.sticky.code, 0) << stream.sticky.message;
    EXPECT_EQ(stream.library.runs, belongs_to_library(*c) ? 1 : 0);
    ++(stream.library.runs > 0 ? by_library : by_ours);
  }
  EXPECT_GE(by_library, 12);
  EXPECT_GE(by_ours, 6);
}

TEST_P(SdpaCases, AreOursWhereThePlanNeedsMoreWorkspace) {
  for (const OpCase* c : cases_of(GetParam(), true)) {
    if (c->name != "documents/bf16") continue;
    LibraryStream stream;
    stream.library.needed_bytes = int64_t{1} << 40;
    expect_close(*c, run_fast(*c, kernels::cuda::cuda_kernels(), stream), run_reference(*c));
    EXPECT_EQ(stream.library.runs, 0);
  }
}

TEST(SdpaShapes, AreOfBf16Alone) {
  kernels::AttentionShape s;
  s.type = DType::kBf16;
  s.batch = 2, s.seq_q = s.seq_k = s.kv_batch_rows = 16, s.heads = s.kv_heads = 2, s.head_dim = 8;
  s.q_stride = s.kv_stride = 48, s.o_stride = 16;
  SdpaShape out;
  EXPECT_TRUE(kernels::cuda::sdpa_shape(s, true, &out));
  s.round_to = DType::kBf16;
  s.type = DType::kF32;
  EXPECT_FALSE(kernels::cuda::sdpa_shape(s, true, &out));
}

INSTANTIATE_TEST_SUITE_P(Table, SdpaCases, ::testing::Values("attention_forward", "attention_backward"),
                         [](const auto& info) { return info.param; });

/// Returns kv_begin for documents of the given lengths, one row of the batch after the other.
std::vector<int32_t> begins(const std::vector<std::vector<int32_t>>& batch) {
  std::vector<int32_t> kv_begin;
  for (const auto& lengths : batch) {
    int32_t begin = 0;
    for (const int32_t length : lengths) {
      kv_begin.insert(kv_begin.end(), static_cast<size_t>(length), begin);
      begin += length;
    }
  }
  return kv_begin;
}

TEST(DocumentTable, SaysWhereEachDocumentIs) {
  // More rows than one round of the kernel processes; one document ends a row of the batch, and the next one
  // begins the next row.
  const std::vector<int32_t> kv_begin = begins({{1, 700, 499}, {1200}, {31, 1, 1, 1167}});
  const std::vector<int64_t> first = {0, 1, 701, 1200, 2400, 2431, 2432, 2433};
  SdpaShape shape;
  shape.batch = 3, shape.seq = 1200, shape.heads = 5, shape.documents = 16;
  shape.q_stride = 40, shape.kv_stride = 24, shape.o_stride = 8;
  std::vector<char> memory(static_cast<size_t>(kernels::cuda::sdpa_workspace(shape).table_bytes), -1);
  kernels::cuda::DocumentTable table;
  cuda_emulation::run_in_order(cuda_emulation::Order::kShuffled, [&](Stream& stream) {
    fill_document_table(shape, kv_begin.data(), memory.data(), &table, kernels::cuda::cuda_stream(stream));
  });
  for (size_t i = 0; i <= 16; ++i) {
    const int64_t row = i < first.size() ? first[i] : 3600;
    EXPECT_EQ(table.q[i], 40 * row) << i;
    EXPECT_EQ(table.kv[i], 24 * row) << i;
    EXPECT_EQ(table.o[i], 8 * row) << i;
    EXPECT_EQ(table.stats[i], 5 * row) << i;
    const int64_t next = i + 1 < first.size() ? first[i + 1] : 3600;
    if (i < 16) {
      EXPECT_EQ(table.rows[i], next - row) << i;
    }
  }
}

TEST(SdpaWorkspace, HoldsWhatTheFrontendOfCudnnTakes) {
  SdpaShape s{.batch = 2, .seq = 1024, .heads = 32, .kv_heads = 8, .head_dim = 128, .value_dim = 128};
  s.q_stride = s.kv_stride = (32 + 16) * 128, s.o_stride = 32 * 128;
  EXPECT_LE(kernels::cuda::sdpa_workspace(s).bytes(), int64_t{4} << 20);
  s.backward = true;
  EXPECT_GE(kernels::cuda::sdpa_workspace(s).library_bytes, 4 * s.rows() * 32 * (128 * 3 + 1));
  s.documents = 64;  // sums have the stride of the rows that they belong to
  EXPECT_GE(kernels::cuda::sdpa_workspace(s).library_bytes,
            4 * s.rows() * (s.q_stride + 2 * 4 * s.kv_stride + 32));
}

}  // namespace sdpa_test
}  // namespace hawser::testing
