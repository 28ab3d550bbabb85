// Promises of attention in addition to agreement with its reference (op_cases_test.cc): masks that leave a
// query only itself, the same result with and without a cache, work for several workers from one head, no
// more barriers than needed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cpu/attention_reference.h"
#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace attention_test {

using testing::SerialStream;

std::vector<float> normals(int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(generator);
  return x;
}

/// 64-byte aligned memory of exactly `bytes`.
struct Workspace {
  explicit Workspace(int64_t bytes) {
    if (posix_memalign(&p, 64, static_cast<size_t>(bytes > 0 ? bytes : 1)) != 0) throw std::bad_alloc();
  }
  ~Workspace() { std::free(p); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* p = nullptr;
};

struct Result {
  std::vector<float> o, lse;
};

Result forward(const AttentionShape& s, const float* q, const float* k, const float* v,
               const KernelTable& table = cpu_kernels(best_cpu_level())) {
  SerialStream stream;
  Result r = {std::vector<float>(static_cast<size_t>(s.batch * s.seq_q * s.o_stride), NAN),
              std::vector<float>(static_cast<size_t>(s.batch * s.heads * s.seq_q), NAN)};
  AttentionForward args = {s, r.o.data(), r.lse.data(), q, k, v, nullptr};
  const Workspace workspace(table.attention_forward_workspace_bytes(args, stream.num_workers));
  args.workspace = workspace.p;
  table.attention_forward(args, stream);
  return r;
}

AttentionShape dense(int64_t batch, int64_t seq, int64_t heads, int64_t head_dim) {
  AttentionShape s;
  s.batch = batch;
  s.seq_q = s.seq_k = s.kv_batch_rows = seq;
  s.heads = s.kv_heads = heads;
  s.head_dim = head_dim;
  s.q_stride = s.kv_stride = s.o_stride = heads * head_dim;
  s.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return s;
}

TEST(Attention, AQueryThatSeesOnlyItselfCopiesItsValue) {
  AttentionShape s = dense(2, 130, 2, 12);
  std::vector<int32_t> own;
  for (int32_t row = 0; row < 260; ++row) own.push_back(row % 130);
  s.kv_begin = own.data();
  const auto q = normals(2 * 130 * 24, 1), k = normals(2 * 130 * 24, 2), v = normals(2 * 130 * 24, 3);
  const Result r = forward(s, q.data(), k.data(), v.data());
  EXPECT_EQ(r.o, v);
  for (const float lse : r.lse) EXPECT_TRUE(std::isfinite(lse));
}

TEST(Attention, KvBeginNeedNotAscend) {
  AttentionShape s = dense(1, 100, 1, 8);
  const auto q = normals(800, 1), k = normals(800, 2), v = normals(800, 3);
  std::vector<int32_t> begin(100);
  for (int32_t t = 0; t < 100; ++t) begin[static_cast<size_t>(t)] = t % 3 == 0 ? t : t / 2;
  s.kv_begin = begin.data();
  const Result all = forward(s, q.data(), k.data(), v.data());
  for (int64_t t = 0; t < 100; ++t) {  // each query alone, with the keys that it sees
    AttentionShape one = s;
    one.seq_q = 1;
    one.q_offset = t;
    one.seq_k = t + 1;
    one.kv_begin = begin.data() + t;
    const Result r = forward(one, q.data() + t * 8, k.data(), v.data());
    EXPECT_NEAR(r.lse[0], all.lse[static_cast<size_t>(t)], 1e-5f);
    for (int64_t j = 0; j < 8; ++j) EXPECT_NEAR(r.o[j], all.o[t * 8 + j], 1e-5f) << t;
  }
}

TEST(Attention, ACacheGivesWhatTheWholeSequenceGives) {
  AttentionShape s = dense(1, 150, 4, 16);
  s.kv_heads = 2;
  s.kv_stride = 32;
  s.window = 70;
  s.softcap = 10.0f;
  const auto q = normals(150 * 64, 1), k = normals(150 * 32, 2), v = normals(150 * 32, 3);
  const Result whole = forward(s, q.data(), k.data(), v.data());
  for (const int64_t queries : {1, 7, 64, 65, 149}) {
    AttentionShape tail = s;
    tail.seq_q = queries;
    tail.q_offset = 150 - queries;
    const Result r = forward(tail, q.data() + tail.q_offset * 64, k.data(), v.data());
    for (size_t i = 0; i < r.o.size(); ++i) {
      EXPECT_NEAR(r.o[i], whole.o[static_cast<size_t>(tail.q_offset) * 64 + i], 2e-5f);
    }
  }
}

/// Probabilities are computed relative to an earlier score, however far later scores lie above it.
TEST(Attention, ScoresMayJumpByMoreThanAnExponentHolds) {
  AttentionShape s = dense(1, 300, 1, 8);
  s.scale = 1;
  std::vector<float> q(2400), k(2400);
  const std::vector<float> v = normals(2400, 3);
  for (int64_t t = 0; t < 300; ++t) {
    q[static_cast<size_t>(8 * t)] = t % 5 == 4 ? -1.0f : 1.0f;  // some scores fall while others rise
    k[static_cast<size_t>(8 * t)] = t < 40    ? 0.0f
                                    : t < 47  ? 152.0f
                                    : t < 90  ? -512.0f
                                    : t < 133 ? 130.0f
                                    : t < 200 ? 1024.0f
                                              : 1032.0f;
  }
  const std::vector<double> qd(q.begin(), q.end()), kd(k.begin(), k.end()), vd(v.begin(), v.end());
  std::vector<double> o(2400), lse(300);
  attention_forward_reference(s, o.data(), lse.data(), qd.data(), kd.data(), vd.data());
  for (const bool bf16 : {false, true}) {
    s.round_to = bf16 ? DType::kBf16 : DType::kF32;
    for (const KernelTable* table : testing::kernel_tables()) {
      const Result r = forward(s, q.data(), k.data(), v.data(), *table);
      for (size_t i = 0; i < o.size(); ++i) ASSERT_NEAR(r.o[i], o[i], bf16 ? 2e-2 : 1e-5) << table->name << i;
      for (size_t i = 0; i < lse.size(); ++i)
        ASSERT_NEAR(r.lse[i], lse[i], 1e-5 * std::max(1.0, std::abs(lse[i]))) << table->name << i;
    }
  }
}

TEST(Attention, ANaNOrInfinityInOneDocumentStaysThere) {
  AttentionShape s = dense(1, 128, 1, 8);
  std::vector<int32_t> begin(128, 0);
  for (size_t t = 64; t < 128; ++t) begin[t] = 64;
  s.kv_begin = begin.data();
  auto q = normals(1024, 1), k = normals(1024, 2), v = normals(1024, 3);
  for (int64_t j = 0; j < 64 * 8; ++j) k[j] = v[j] = NAN;
  const Result r = forward(s, q.data(), k.data(), v.data());
  for (size_t i = 64 * 8; i < r.o.size(); ++i) EXPECT_TRUE(std::isfinite(r.o[i]));
  for (size_t i = 0; i < 8; ++i)
    EXPECT_TRUE(std::isnan(r.o[i]));  // and it is not hidden in the first
                                      // document
}

/// A stream that counts its tasks.
class CountingStream : public Stream {
 public:
  CountingStream() : Stream{&CountingStream::run_tasks, 2} {}
  int64_t most_tasks = 0, calls = 0;

 private:
  static void run_tasks(Stream* self, int64_t tasks, TaskFn fn, void* arg) {
    auto& stream = *static_cast<CountingStream*>(self);
    stream.most_tasks = std::max(stream.most_tasks, tasks);
    ++stream.calls;
    for (int64_t t = 0; t < tasks; ++t) fn(arg, t, static_cast<int32_t>(t % 2));
  }
};

TEST(Attention, OneHeadOfOneLongSequenceKeepsSeveralWorkersBusy) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  const AttentionShape s = dense(1, 1500, 1, 8);
  const auto q = normals(12000, 1), k = normals(12000, 2), v = normals(12000, 3);
  std::vector<float> o(12000), lse(1500), dq(12000), dk(12000), dv(12000);
  CountingStream stream;
  AttentionForward f = {s, o.data(), lse.data(), q.data(), k.data(), v.data(), nullptr};
  const Workspace forward_memory(table.attention_forward_workspace_bytes(f, 2));
  f.workspace = forward_memory.p;
  table.attention_forward(f, stream);
  EXPECT_GE(stream.most_tasks, 8);
  EXPECT_EQ(stream.calls, 1);
  stream.most_tasks = 0;
  AttentionBackward b = {s,          dq.data(), dk.data(), dv.data(), q.data(), o.data(),
                         lse.data(), q.data(),  k.data(),  v.data(),  nullptr};
  const Workspace backward_memory(table.attention_backward_workspace_bytes(b, 2));
  b.workspace = backward_memory.p;
  table.attention_backward(b, stream);
  EXPECT_GE(stream.most_tasks, 4);
}

/// Tensor-parallel ranks drop the same elements as one rank with all heads.
TEST(Attention, HeadsDividedOverCallsGiveTheSameBitsUnderDropout) {
  const uint64_t samples[] = {11, 5};
  AttentionShape all = dense(2, 70, 4, 16);
  all.dropout = {0.3f, 77, samples};
  const auto q = normals(2 * 70 * 64, 1), k = normals(2 * 70 * 64, 2), v = normals(2 * 70 * 64, 3);
  const Result whole = forward(all, q.data(), k.data(), v.data());
  for (const int64_t first : {0, 2}) {
    AttentionShape half = all;
    half.heads = half.kv_heads = 2, half.first_head = first;
    const int64_t at = first * 16;
    const Result part = forward(half, q.data() + at, k.data() + at, v.data() + at);
    for (int64_t row = 0; row < 140; ++row)
      for (int64_t i = 0; i < 32; ++i)
        ASSERT_EQ(part.o[static_cast<size_t>(row * 64 + i)], whole.o[static_cast<size_t>(row * 64 + at + i)]);
    half.first_head = 1;
    EXPECT_NE(forward(half, q.data() + at, k.data() + at, v.data() + at).o, part.o);
  }
}

TEST(Attention, AnEmptyBatchIsNothing) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  SerialStream stream;
  AttentionForward f;
  f.s = dense(0, 4, 1, 8);
  EXPECT_EQ(table.attention_forward_workspace_bytes(f, 2), 0);
  table.attention_forward(f, stream);
  AttentionBackward b;
  b.s = f.s;
  EXPECT_EQ(table.attention_backward_workspace_bytes(b, 2), 0);
  table.attention_backward(b, stream);
}

}  // namespace attention_test
}  // namespace hawser::kernels
