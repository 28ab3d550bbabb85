// Attention backward over keys that take several chunks of the cache, if the queries of a tile see no key of
// the first chunks: under a window, and in a later document.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/attention_reference.h"
#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace attention_chunks_test {

struct Gradients {
  std::vector<double> dq, dk, dv;
};

void expect_near(const std::vector<float>& got, const std::vector<double>& want, const char* what) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(difference <= worst)) worst = difference;  // keeps a NaN
    largest = std::max(largest, std::abs(want[i]));
  }
  EXPECT_LT(worst, 2e-5 * largest) << what;
}

/// There are sixteen heads, so that one task has all keys of a head, and 256 features, so that a chunk has
/// 512 keys.
void check_backward(int64_t window, const std::vector<int32_t>& kv_begin) {
  constexpr int64_t kSeq = 1300, kHeads = 16, kHead = 256, kWidth = kHeads * kHead;
  constexpr auto kSize = static_cast<size_t>(kSeq * kWidth);
  AttentionShape s;
  s.batch = 1, s.seq_q = s.seq_k = s.kv_batch_rows = kSeq;
  s.heads = s.kv_heads = kHeads, s.head_dim = kHead;
  s.q_stride = s.kv_stride = s.o_stride = kWidth;
  s.scale = 1 / 16.0f;
  s.window = window;
  s.kv_begin = kv_begin.empty() ? nullptr : kv_begin.data();
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  std::vector<float> q(kSize), k(kSize), v(kSize), dout(kSize), o(kSize), dq(kSize), dk(kSize), dv(kSize);
  for (std::vector<float>* x : {&q, &k, &v, &dout})
    for (float& value : *x) value = normal(generator);
  std::vector<float> lse(static_cast<size_t>(kHeads * kSeq));

  const KernelTable& table = cpu_kernels(best_cpu_level());
  testing::SerialStream stream;
  AttentionForward f;
  f.s = s, f.o = o.data(), f.lse = lse.data(), f.q = q.data(), f.k = k.data(), f.v = v.data();
  std::vector<float> workspace(static_cast<size_t>(table.attention_forward_workspace_bytes(f, 1) / 4 + 16));
  f.workspace = workspace.data();
  table.attention_forward(f, stream);
  AttentionBackward b;
  b.s = s, b.dq = dq.data(), b.dk = dk.data(), b.dv = dv.data(), b.dout = dout.data(), b.o = o.data();
  b.lse = lse.data(), b.q = q.data(), b.k = k.data(), b.v = v.data();
  // Unwritten memory may hold any values, so it is filled with NaN.
  workspace.assign(static_cast<size_t>(table.attention_backward_workspace_bytes(b, 1) / 4 + 16), NAN);
  b.workspace = workspace.data();
  table.attention_backward(b, stream);

  const auto wide = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
  Gradients want{std::vector<double>(kSize), std::vector<double>(kSize), std::vector<double>(kSize)};
  attention_backward_reference<double>(s, want.dq.data(), want.dk.data(), want.dv.data(), wide(dout).data(),
                                       wide(o).data(), wide(lse).data(), wide(q).data(), wide(k).data(),
                                       wide(v).data());
  expect_near(dq, want.dq, "dq");
  expect_near(dk, want.dk, "dk");
  expect_near(dv, want.dv, "dv");
}

TEST(AttentionChunks, AWindowThatLeavesTheFirst) { check_backward(60, {}); }

TEST(AttentionChunks, ADocumentBehindTheFirst) {
  std::vector<int32_t> begin(1300);
  for (int32_t t = 0; t < 1300; ++t) begin[static_cast<size_t>(t)] = t / 100 * 100;
  check_backward(0, begin);
}

}  // namespace attention_chunks_test
}  // namespace hawser::kernels
