// Attention backward with little memory for partial sums of dq: fewer heads are in work at a time, and all
// gradients have the bits of one wave of all heads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace attention_waves_test {

constexpr int64_t kBatch = 2, kSeq = 1600, kHeads = 6, kKvHeads = 2, kDim = 12, kValueDim = 20;
constexpr int64_t kSpans = 4;  // of four key-value heads with 1600 keys each
constexpr int64_t kHeadBytes = kSpans * kSeq * kDim * 4;

/// Numbers of type f32 or bf16, as bytes.
struct Numbers {
  std::vector<char> bytes;

  Numbers(DType type, int64_t n, uint32_t seed) : bytes(static_cast<size_t>(n) * size_of(type)) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const float x = normal(generator);  // of bf16, the upper half is stored
      const char* const from = reinterpret_cast<const char*>(&x) + 4 - size_of(type);
      std::memcpy(bytes.data() + i * size_of(type), from, size_of(type));
    }
  }
  static size_t size_of(DType type) { return type == DType::kF32 ? 4 : 2; }
};

struct Problem {
  DType type;
  bool f32_out, accumulate;
  int64_t window;
};

/// The gradients, and what their computation needed.
struct Result {
  Numbers dq, dk, dv;
  int64_t bytes;
  bool overran;
};

class AttentionWaves : public ::testing::TestWithParam<Problem> {
 protected:
  AttentionWaves() {
    const DType type = GetParam().type;
    AttentionShape& s = args_.s;
    s.type = type, s.batch = kBatch, s.seq_q = s.seq_k = s.kv_batch_rows = kSeq;
    s.heads = kHeads, s.kv_heads = kKvHeads, s.head_dim = kDim, s.value_dim = kValueDim;
    s.q_stride = kHeads * kDim, s.kv_stride = kKvHeads * kValueDim, s.o_stride = kHeads * kValueDim;
    s.scale = 0.3f, s.window = GetParam().window;
    q_ = Numbers(type, kRows * s.q_stride, 1), k_ = Numbers(type, kRows * s.kv_stride, 2);
    v_ = Numbers(type, kRows * s.kv_stride, 3), dout_ = Numbers(type, kRows * s.o_stride, 4);
    o_ = Numbers(type, kRows * s.o_stride, 5), lse_ = Numbers(DType::kF32, kRows * kHeads, 6);
    args_.q = q_.bytes.data(), args_.k = k_.bytes.data(), args_.v = v_.bytes.data();
    args_.dout = dout_.bytes.data(), args_.o = o_.bytes.data();
    args_.lse = reinterpret_cast<const float*>(lse_.bytes.data());
    args_.f32_out = GetParam().f32_out;
    args_.accumulate_q = args_.accumulate_kv = GetParam().accumulate;
  }

  Result run(const KernelTable& table, int64_t share_bytes, Stream& stream) {
    AttentionBackward b = args_;
    const AttentionShape& s = b.s;
    const DType out = has_f32_gradients(b) ? DType::kF32 : s.type;
    Result r = {Numbers(out, kRows * s.q_stride, 7), Numbers(out, kRows * s.kv_stride, 8),
                Numbers(out, kRows * s.kv_stride, 9), 0, false};
    b.dq = r.dq.bytes.data(), b.dk = r.dk.bytes.data(), b.dv = r.dv.bytes.data();
    b.share_bytes = share_bytes;
    r.bytes = table.attention_backward_workspace_bytes(b, stream.num_workers);
    const auto floats = static_cast<size_t>(r.bytes / 4);
    constexpr float kBehind = 12345;
    std::vector<float> memory(floats + 17, NAN);  // unwritten memory may hold any values
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    float* const begin = memory.data() + ((address + 63) / 64 * 64 - address) / sizeof(float);
    begin[floats] = kBehind;
    b.workspace = begin;
    table.attention_backward(b, stream);
    r.overran = begin[floats] != kBehind;
    return r;
  }

  static constexpr int64_t kRows = kBatch * kSeq;
  AttentionBackward args_;
  Numbers q_{DType::kF32, 0, 0}, k_ = q_, v_ = q_, dout_ = q_, o_ = q_, lse_ = q_;
};

TEST_P(AttentionWaves, GiveTheBitsOfOneWave) {
  for (const KernelTable* table : testing::kernel_tables()) {
    testing::SerialStream all(3);
    const Result want = run(*table, int64_t{1} << 40, all);
    int64_t bytes = 0;
    // All heads; two of each group and then the third; one of each group; one of a group or of a few.
    for (const int64_t heads : {12, 11, 8, 4, 3, 0}) {
      for (const int32_t workers : {1, 2, 3}) {
        testing::SerialStream stream(workers, testing::TaskOrder::kShuffled);
        const Result got = run(*table, heads * kHeadBytes, stream);
        SCOPED_TRACE(::testing::Message() << heads << " heads, " << workers << " workers");
        ASSERT_FALSE(got.overran);
        ASSERT_TRUE(got.dq.bytes == want.dq.bytes);
        ASSERT_TRUE(got.dk.bytes == want.dk.bytes);
        ASSERT_TRUE(got.dv.bytes == want.dv.bytes);
        bytes = got.bytes;
      }
    }
    EXPECT_LT(bytes, want.bytes * 3 / 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Problems, AttentionWaves,
                         ::testing::Values(Problem{DType::kF32, false, false, 0},
                                           Problem{DType::kF32, false, true, 700},
                                           Problem{DType::kBf16, false, false, 900},
                                           Problem{DType::kBf16, true, true, 0}));

TEST(AttentionWavesMemory, SufficesForShorterSequences) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  for (const int64_t share_bytes : {0, 100'000, 1'000'000, 10'000'000}) {
    AttentionBackward b;
    b.share_bytes = share_bytes;
    b.s.type = DType::kBf16, b.s.batch = 1, b.s.heads = 14, b.s.kv_heads = 2, b.s.head_dim = 64;
    int64_t before = 0;
    for (int64_t keys = 1; keys < 9000; keys += 40) {
      b.s.seq_q = b.s.seq_k = b.s.kv_batch_rows = keys;
      const int64_t bytes = table.attention_backward_workspace_bytes(b, 2);
      ASSERT_GE(bytes, before) << keys;
      before = bytes;
    }
  }
}

TEST(AttentionWavesMemory, IsNotProportionalToTheHeadsOfALongSequence) {
  AttentionBackward b;
  b.s.type = DType::kBf16, b.s.batch = 1, b.s.heads = 14, b.s.kv_heads = 2, b.s.head_dim = 64;
  b.s.seq_q = b.s.seq_k = b.s.kv_batch_rows = 131072;
  const int64_t gib = int64_t{1} << 30;
  EXPECT_LT(cpu_kernels(best_cpu_level()).attention_backward_workspace_bytes(b, 2), gib / 2);
}

}  // namespace attention_waves_test
}  // namespace hawser::kernels
