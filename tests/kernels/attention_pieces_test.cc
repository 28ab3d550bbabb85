// Attention over parts of rows: merged and accumulated parts give the result of one call, a part that no
// query sees changes nothing, and complete rows are a special case.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace attention_pieces_test {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

std::vector<float> normals(int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(generator);
  return x;
}

/// Runs one direction with a workspace of the size that it requests, filled with NaN.
template <class Args>
void run(Args args, int64_t (*bytes)(const Args&, int32_t), void (*op)(const Args&, Stream&)) {
  testing::SerialStream stream;
  const int64_t floats = bytes(args, stream.num_workers) / 4;
  std::vector<float> memory(static_cast<size_t>(floats) + 16, NAN);
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  args.workspace = reinterpret_cast<void*>((address + 63) / 64 * 64);
  op(args, stream);
}
void run(const AttentionForward& args, const KernelTable& table) {
  run(args, table.attention_forward_workspace_bytes, table.attention_forward);
}
void run(const AttentionBackward& args, const KernelTable& table) {
  run(args, table.attention_backward_workspace_bytes, table.attention_backward);
}

/// A problem over complete rows, with its operands and results.
struct Rows {
  AttentionShape s;
  std::vector<int32_t> kv_begin;
  std::vector<uint64_t> samples = {11, 5};
  std::vector<float> q, k, v, dout, o, lse, dq, dk, dv;

  Rows(int64_t batch, int64_t seq, int64_t heads, int64_t kv_heads, int64_t head_dim) {
    s.batch = batch;
    s.seq_q = s.seq_k = s.kv_batch_rows = seq;
    s.heads = heads, s.kv_heads = kv_heads, s.head_dim = head_dim;
    s.q_stride = s.o_stride = heads * head_dim, s.kv_stride = kv_heads * head_dim;
    s.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    const int64_t n = batch * seq * s.q_stride, n_kv = batch * seq * s.kv_stride;
    q = normals(n, 1), k = normals(n_kv, 2), v = normals(n_kv, 3), dout = normals(n, 4);
    fill(NAN, NAN, NAN);
  }

  void fill(float result, float sum, float gradient) {
    o.assign(q.size(), result), lse.assign(static_cast<size_t>(s.batch * s.seq_q * s.heads), sum);
    dq.assign(q.size(), gradient), dk.assign(k.size(), gradient), dv.assign(k.size(), gradient);
  }
  void divide_into_documents(int32_t length) {
    for (int64_t row = 0; row < s.batch * s.seq_q; ++row) {
      const auto column = static_cast<int32_t>(row % s.seq_q),
                 cut = length + static_cast<int32_t>(row / s.seq_q);
      kv_begin.push_back(column / cut * cut);
    }
  }

  AttentionForward forward() {
    AttentionForward f;
    f.s = s;
    if (!kv_begin.empty()) f.s.kv_begin = kv_begin.data();
    f.s.dropout.samples = samples.data();
    f.o = o.data(), f.lse = lse.data();
    f.q = q.data(), f.k = k.data(), f.v = v.data();
    return f;
  }
  AttentionBackward backward() {
    AttentionBackward b;
    b.s = forward().s;
    b.dq = dq.data(), b.dk = dk.data(), b.dv = dv.data();
    b.dout = dout.data(), b.o = o.data(), b.lse = lse.data();
    b.q = q.data(), b.k = k.data(), b.v = v.data();
    return b;
  }
};

/// Columns [begin, begin + n) of the row.
struct Columns {
  int64_t begin, n;
};

template <class T>
T* moved(T* p, int64_t floats) {
  using Float = std::conditional_t<std::is_const_v<T>, const float, float>;
  return static_cast<Float*>(p) + floats;
}

/// Limits a problem over complete rows to the queries and keys of a part. All pointers are to f32.
template <class Args>
void cut(Args& args, Columns queries, Columns keys) {
  AttentionShape& s = args.s;
  s.q_batch_rows = s.seq_q;
  s.q_offset = queries.begin, s.seq_q = queries.n;
  s.k_offset = keys.begin, s.seq_k = keys.n;
  if (s.kv_begin != nullptr) s.kv_begin += queries.begin;
  args.q = moved(args.q, queries.begin * s.q_stride);
  args.k = moved(args.k, keys.begin * s.kv_stride);
  args.v = moved(args.v, keys.begin * s.kv_stride);
  args.o = moved(args.o, queries.begin * s.o_stride);
  args.lse += queries.begin;
}

AttentionForward piece(AttentionForward args, Columns queries, Columns keys) {
  cut(args, queries, keys);
  return args;
}
AttentionBackward piece(AttentionBackward args, Columns queries, Columns keys) {
  cut(args, queries, keys);
  args.dout = moved(args.dout, queries.begin * args.s.o_stride);
  args.dq = moved(args.dq, queries.begin * args.s.q_stride);
  args.dk = moved(args.dk, keys.begin * args.s.kv_stride);
  args.dv = moved(args.dv, keys.begin * args.s.kv_stride);
  return args;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                 const char* what) {
  double square = 0, worst = 0;
  for (const float x : want) square += static_cast<double>(x) * x;
  const double scale = std::sqrt(square / static_cast<double>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]) / (std::abs(want[i]) + scale);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  EXPECT_LE(worst, tolerance) << what;
}

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), 4 * got.size()), 0) << what;
}

void expect_same_bits(const Rows& got, const Rows& want) {
  expect_same_bits(got.o, want.o, "o");
  expect_same_bits(got.lse, want.lse, "lse");
  expect_same_bits(got.dq, want.dq, "dq");
  expect_same_bits(got.dk, want.dk, "dk");
  expect_same_bits(got.dv, want.dv, "dv");
}

void run_whole(Rows& rows, const KernelTable& table) {
  run(rows.forward(), table);
  run(rows.backward(), table);
}

/// Rank r of `ranks` has chunks r and 2 * ranks - 1 - r of every row. It processes the keys of its own rank
/// first, then those of the ranks before it, as in a ring.
void run_zigzag(Rows& rows, int64_t ranks, const KernelTable& table) {
  const int64_t chunks = 2 * ranks, length = rows.s.seq_q / chunks;
  ASSERT_EQ(rows.s.seq_q % chunks, 0);
  const auto of = [&](int64_t chunk) { return Columns{chunk * length, length}; };
  rows.fill(NAN, NAN, 0.0f);
  const auto each_piece = [&](const auto& call) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      for (int64_t step = 0; step < ranks; ++step) {
        const int64_t from = (rank + ranks - step) % ranks;
        for (const int64_t mine : {rank, chunks - 1 - rank}) {
          call(of(mine), of(from), step > 0);
          call(of(mine), of(chunks - 1 - from), true);
        }
      }
    }
  };
  each_piece([&](Columns queries, Columns keys, bool merge) {
    AttentionForward f = piece(rows.forward(), queries, keys);
    f.merge = merge;
    run(f, table);
  });
  each_piece([&](Columns queries, Columns keys, bool) {
    AttentionBackward b = piece(rows.backward(), queries, keys);
    b.accumulate_q = b.accumulate_kv = true;
    run(b, table);
  });
}

/// Compares the results of 2, 4, 6 and 8 chunks with those of one call. Chunks have 37, 74, ... columns.
void expect_pieces_give_the_whole(Rows rows, double forward_tolerance, double backward_tolerance) {
  for (const KernelTable* table : testing::kernel_tables()) {
    Rows whole = rows;
    run_whole(whole, *table);
    for (const int64_t ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::string(table->name) + ", " + std::to_string(ranks) + " ranks");
      Rows parts = rows;
      run_zigzag(parts, ranks, *table);
      expect_near(parts.o, whole.o, forward_tolerance, "o");
      expect_near(parts.lse, whole.lse, 2e-6, "lse");
      expect_near(parts.dq, whole.dq, backward_tolerance, "dq");
      expect_near(parts.dk, whole.dk, backward_tolerance, "dk");
      expect_near(parts.dv, whole.dv, backward_tolerance, "dv");
    }
  }
}

constexpr int64_t kSequence = 24 * 37;

TEST(AttentionPieces, GiveTheWhole) { expect_pieces_give_the_whole({2, kSequence, 2, 2, 16}, 3e-6, 1e-5); }

TEST(AttentionPieces, GiveTheWholeInAWindow) {
  for (const int64_t window : {1, 50, 300}) {
    Rows rows(1, kSequence, 2, 1, 16);
    rows.s.window = window;
    expect_pieces_give_the_whole(rows, 3e-6, 1e-5);
  }
}

TEST(AttentionPieces, GiveTheWholeOfDocuments) {
  for (const int32_t length : {1, 31, 400}) {
    Rows rows(2, kSequence, 2, 1, 16);
    rows.divide_into_documents(length);
    expect_pieces_give_the_whole(rows, 3e-6, 1e-5);
  }
}

TEST(AttentionPieces, GiveTheWholeWithEverything) {
  Rows rows(2, kSequence, 4, 2, 19);
  rows.divide_into_documents(170);
  rows.s.window = 120;
  rows.s.softcap = 3.0f;
  rows.s.first_head = 3;
  rows.s.dropout.p = 0.2f, rows.s.dropout.key = 77;
  expect_pieces_give_the_whole(rows, 3e-6, 1e-5);
}

/// Probabilities are rounded relative to another maximum, so results differ by rounding.
TEST(AttentionPieces, GiveTheWholeInBf16Products) {
  Rows rows(1, kSequence, 2, 1, 32);
  rows.s.round_to = DType::kBf16;
  expect_pieces_give_the_whole(rows, 0.01, 0.02);
}

/// Returns parts in which no query sees any key.
std::vector<AttentionShape> empty_pieces(const AttentionShape& all, const std::vector<int32_t>& far) {
  AttentionShape s = all;
  s.q_batch_rows = all.seq_q;
  s.seq_q = 150, s.seq_k = 170;
  std::vector<AttentionShape> pieces(5, s);
  pieces[0].k_offset = 150;
  pieces[1].k_offset = 1 << 20;
  pieces[2].q_offset = 500, pieces[2].window = 331;
  pieces[3].q_offset = 500, pieces[3].kv_begin = far.data();
  pieces[4].seq_k = 0;
  return pieces;
}

TEST(AttentionPieces, ThatNobodySeesChangeNoBit) {
  const std::vector<int32_t> far(400, 170);
  for (const KernelTable* table : testing::kernel_tables()) {
    Rows rows(1, 400, 2, 1, 16);
    const std::vector<float> seed = normals(static_cast<int64_t>(rows.q.size()), 9);
    for (size_t i = 0; i < seed.size(); ++i) rows.o[i] = rows.dq[i] = i % 5 == 0 ? -0.0f : seed[i];
    for (size_t i = 0; i < rows.dk.size(); ++i) rows.dk[i] = rows.dv[i] = i % 3 == 0 ? -0.0f : seed[i];
    for (size_t i = 0; i < rows.lse.size(); ++i) rows.lse[i] = i % 4 == 0 ? kNothing : seed[i];
    const Rows before = rows;
    for (const AttentionShape& s : empty_pieces(rows.s, far)) {
      for (const bool bf16 : {false, true}) {
        AttentionForward f = rows.forward();
        f.s = s, f.s.round_to = bf16 ? DType::kBf16 : DType::kF32, f.merge = true;
        run(f, *table);
        AttentionBackward b = rows.backward();
        b.s = f.s, b.accumulate_q = b.accumulate_kv = true;
        run(b, *table);
        expect_same_bits(rows, before);
      }
    }
  }
}

TEST(AttentionPieces, ThatNobodySeesGiveZerosAndNoNaN) {
  const std::vector<int32_t> far(400, 170);
  for (const KernelTable* table : testing::kernel_tables()) {
    const Rows poisoned(1, 400, 2, 1, 16);
    for (const AttentionShape& s : empty_pieces(poisoned.s, far)) {
      Rows rows = poisoned;
      rows.k.assign(rows.k.size(), NAN), rows.v = rows.k;
      AttentionForward f = rows.forward();
      f.s = s;
      run(f, *table);
      for (int64_t merges = 0; merges < 2; ++merges) {
        for (int64_t i = 0; i < 400; ++i) {
          for (int64_t h = 0; h < 2; ++h)
            EXPECT_TRUE(i < s.seq_q ? rows.lse[h * 400 + i] == kNothing : std::isnan(rows.lse[h * 400 + i]));
          for (int64_t j = 0; j < 32; ++j)
            ASSERT_TRUE(i < s.seq_q ? rows.o[i * 32 + j] == 0 : std::isnan(rows.o[i * 32 + j]));
        }
        f.merge = true;
        run(f, *table);
      }
      AttentionBackward b = rows.backward();
      b.s = s;
      run(b, *table);
      for (int64_t i = 0; i < s.seq_q * 32; ++i) ASSERT_EQ(rows.dq[static_cast<size_t>(i)], 0.0f);
      for (int64_t i = 0; i < s.seq_k * 16; ++i) ASSERT_EQ(rows.dk[i] + rows.dv[i], 0.0f);
    }
  }
}

TEST(AttentionPieces, WithoutQueriesGiveZeroGradientsOfKeys) {
  Rows rows(1, 100, 2, 1, 16);
  AttentionBackward b = rows.backward();
  b.s.seq_q = 0;
  run(b, cpu_kernels(best_cpu_level()));
  for (size_t i = 0; i < rows.dk.size(); ++i) ASSERT_EQ(rows.dk[i] + rows.dv[i], 0.0f);
}

TEST(AttentionPieces, MergedIntoNothingAreThemselves) {
  for (const KernelTable* table : testing::kernel_tables()) {
    Rows plain(2, 300, 2, 1, 20);
    plain.s.q_offset = 60, plain.s.k_offset = 100;
    Rows merged = plain;
    merged.fill(0.0f, kNothing, 0.0f);
    run(plain.forward(), *table);
    AttentionForward f = merged.forward();
    f.merge = true;
    run(f, *table);
    expect_same_bits(merged.o, plain.o, "o");
    expect_same_bits(merged.lse, plain.lse, "lse");
  }
}

/// All columns may be shifted together, and arguments whose default is 0 may be given explicitly.
TEST(AttentionPieces, OfWholeRowsGiveTheBitsOfWholeRows) {
  for (const KernelTable* table : testing::kernel_tables()) {
    for (const bool bf16 : {false, true}) {
      Rows whole(2, 700, 2, 1, 20);
      whole.divide_into_documents(450);
      whole.s.window = 333;
      whole.s.round_to = bf16 ? DType::kBf16 : DType::kF32;
      Rows same = whole;
      for (int32_t& begin : same.kv_begin) begin += 1237;
      same.s.q_offset = same.s.k_offset = 1237;
      same.s.q_batch_rows = 700;
      run_whole(whole, *table);
      AttentionForward f = same.forward();
      f.f32_out = true;
      run(f, *table);
      AttentionBackward b = same.backward();
      b.f32_out = true;
      b.dq_stride = b.s.q_stride, b.dkv_stride = b.s.kv_stride;
      run(b, *table);
      expect_same_bits(same, whole);
    }
  }
}

TEST(AttentionPieces, NeedNoMoreWorkspaceForFewerKeysOrQueries) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  for (const DType type : {DType::kF32, DType::kBf16}) {
    AttentionBackward b;
    b.s = Rows(1, 1, 2, 1, 64).s;
    b.s.type = type;
    int64_t before = 0, before_square = 0;
    for (int64_t keys = 1; keys < 5000; keys += 40) {
      b.s.seq_k = keys, b.s.seq_q = 700;
      const int64_t bytes = table.attention_backward_workspace_bytes(b, 2);
      b.s.seq_q = keys;
      const int64_t square = table.attention_backward_workspace_bytes(b, 2);
      ASSERT_GE(bytes, before) << keys;
      ASSERT_GE(square, before_square) << keys;
      before = bytes, before_square = square;
    }
  }
}

}  // namespace attention_pieces_test
}  // namespace hawser::kernels
