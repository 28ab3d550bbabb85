// The largest score of each head that attention's forward finds (AttentionShape::largest), against the
// definition, and the same bits for every division into workers and parts of the rows.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/attention_reference.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace attention_scores_test {

struct Problem {
  AttentionShape s;
  testing::TypedValues q, k, v;
  std::vector<int32_t> kv_begin;
  std::vector<uint16_t> o;
  std::vector<float> lse;

  Problem(DType type, int64_t seq, int64_t heads, int64_t kv_heads, int64_t head_dim)
      : q(type, 2 * seq * heads * head_dim),
        k(type, 2 * seq * kv_heads * head_dim),
        v(type, 2 * seq * kv_heads * head_dim) {
    s.type = s.round_to = type;
    s.batch = 2, s.seq_q = s.seq_k = s.kv_batch_rows = s.q_batch_rows = seq;
    s.heads = heads, s.kv_heads = kv_heads, s.head_dim = head_dim;
    s.q_stride = s.o_stride = heads * head_dim, s.kv_stride = kv_heads * head_dim;
    s.scale = 0.25f;
    std::mt19937 random(static_cast<uint32_t>(seq));
    q.fill(random), k.fill(random), v.fill(random);
    o.resize(2 * q.values.size()), lse.resize(static_cast<size_t>(2 * seq * heads));
  }
  /// Gives the last key, which only the last query sees, by far the largest scores.
  void raise_later_keys() {
    for (int64_t j = 0; j < s.head_dim; ++j)
      for (int64_t h = 0; h < s.kv_heads; ++h)
        k.set((s.seq_k - 1) * s.kv_stride + h * s.head_dim + j, 40.0f * (j % 2 == 0 ? 1.0f : -1.0f));
  }
  void divide_into_documents(int32_t length) {
    for (int64_t row = 0; row < s.batch * s.seq_q; ++row)
      kv_begin.push_back(static_cast<int32_t>(row % s.seq_q) / length * length);
    s.kv_begin = kv_begin.data();
  }
  std::vector<double> expected() const {
    std::vector<double> largest(static_cast<size_t>(s.heads));
    largest_scores_reference(s, largest.data(), q.values.data(), k.values.data());
    return largest;
  }
};

constexpr int64_t kFirstHead = 3;

/// Runs queries [begin, begin + n) over all keys, and raises `largest` from kFirstHead on.
void run(const Problem& p, const KernelTable& table, int64_t begin, int64_t n, float* largest,
         Stream& stream) {
  AttentionForward f;
  f.s = p.s;
  f.s.q_offset = begin, f.s.seq_q = n;
  if (f.s.kv_begin != nullptr) f.s.kv_begin += begin;
  f.s.first_head = kFirstHead, f.s.largest = largest;
  f.q = static_cast<const char*>(p.q.data()) + dtype_bytes(p.s.type, begin * p.s.q_stride);
  f.k = p.k.data(), f.v = p.v.data();
  std::vector<uint16_t> o(p.o.size());
  std::vector<float> lse(p.lse.size());
  f.o = o.data(), f.lse = lse.data();
  std::vector<float> memory(
      static_cast<size_t>(table.attention_forward_workspace_bytes(f, stream.num_workers) / 4 + 16), NAN);
  f.workspace = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  table.attention_forward(f, stream);
}

void expect_definition(const Problem& p) {
  const std::vector<double> expected = p.expected();
  for (const KernelTable* table : testing::kernel_tables()) {
    std::vector<float> whole(kFirstHead + expected.size()), threads = whole, parts = whole;
    testing::SerialStream serial;
    run(p, *table, 0, p.s.seq_q, whole.data(), serial);
    for (size_t h = 0; h < expected.size(); ++h)
      EXPECT_NEAR(static_cast<double>(whole[kFirstHead + h]), expected[h], 1e-5 * (1 + expected[h]))
          << "head " << h;
    for (size_t h = 0; h < kFirstHead; ++h) EXPECT_EQ(whole[h], 0);
    testing::ThreadStream many(4);
    run(p, *table, 0, p.s.seq_q, threads.data(), many);
    EXPECT_EQ(threads, whole);
    for (int64_t begin = 0; begin < p.s.seq_q; begin += 37)
      run(p, *table, begin, std::min<int64_t>(37, p.s.seq_q - begin), parts.data(), serial);
    EXPECT_EQ(parts, whole);
  }
}

TEST(AttentionScores, AreTheLargestOfEachHead) {
  for (const DType type : {DType::kF32, DType::kBf16})
    for (const int64_t seq : {1, 5, 130, 300}) {
      Problem plain(type, seq, 4, 2, 20), documents = plain, window = plain;
      expect_definition(plain);
      documents.divide_into_documents(7);
      expect_definition(documents);
      window.s.window = 9;
      expect_definition(window);
    }
}

TEST(AttentionScores, KeysThatNoQuerySeesDoNotCount) {
  for (const DType type : {DType::kF32, DType::kBf16}) {
    Problem p(type, 130, 4, 2, 20);
    p.raise_later_keys();
    p.s.seq_k = p.s.seq_q = 129;  // without the last key
    expect_definition(p);
    Problem seen_once(type, 130, 4, 2, 20);
    seen_once.raise_later_keys();
    expect_definition(seen_once);
  }
}

TEST(AttentionScores, ScoresBelowZeroRaiseNothing) {
  Problem p(DType::kF32, 3, 2, 2, 4);
  for (size_t i = 0; i < p.q.values.size(); ++i) p.q.set(static_cast<int64_t>(i), 1.0f);
  for (size_t i = 0; i < p.k.values.size(); ++i) p.k.set(static_cast<int64_t>(i), -1.0f);
  for (const KernelTable* table : testing::kernel_tables()) {
    std::vector<float> largest(kFirstHead + 2);
    testing::SerialStream serial;
    run(p, *table, 0, 3, largest.data(), serial);
    EXPECT_EQ(largest, std::vector<float>(kFirstHead + 2));
  }
}

}  // namespace attention_scores_test
}  // namespace hawser::kernels
