// Rows of the op-case table for the parts around the blocks: embedding, rotary positions, the residual
// stream.
#include <memory>

#include "kernels/cpu/embedding_reference.h"
#include "kernels/cpu/residual_reference.h"
#include "kernels/cpu/rope_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_stream {

using kernels::EmbeddingBackward;
using kernels::EmbeddingForward;
using kernels::ResidualBackward;
using kernels::ResidualForward;
using kernels::Rope;
using Indices = std::shared_ptr<std::vector<int32_t>>;

/// Returns `rows` indices below `end`, many of them equal.
Indices indices(int64_t rows, int64_t end, uint32_t seed) {
  std::mt19937 generator(seed);
  auto list = std::make_shared<std::vector<int32_t>>();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t index = static_cast<int64_t>(generator() % static_cast<uint64_t>(end));
    list->push_back(static_cast<int32_t>(r % 3 == 0 ? end - 1 : index));
  }
  return list;
}

/// `own`: the table has only some rows of the vocabulary.
OpCase embedding_case(int64_t rows, int64_t d, DType x_type, DType type, bool positions, bool own = false) {
  const int64_t vocab = 11, places = 6;
  const Indices tokens = indices(rows, vocab, 1), at = indices(rows, places, 2);
  EmbeddingForward a;
  a.tokens = tokens->data();
  a.positions = at->data();
  a.x_type = x_type, a.weight_type = type;
  a.rows = rows;
  a.d = d;
  a.scale = positions ? 1.0f : 5.5f;
  if (own) a.first_word = 3, a.words = 5;
  OpCase c = {"embedding_forward",
              std::to_string(rows) + "x" + std::to_string(d) + (positions ? "_positions" : "") +
                  (own ? "_own_words/" : "/") + type_word(x_type) + "_" + type_word(type),
              {},
              nullptr,
              nullptr};
  c.operands = {input("tokens_weight", type, vocab * d, 1), input("positions_weight", type, places * d, 2),
                output("x", x_type, rows * d, 1e-6)};
  c.fast = [=](const FastCall& call) {
    EmbeddingForward args = a;
    args.x = call.data[2];
    args.tokens_weight = call.data[0];
    args.positions_weight = positions ? call.data[1] : nullptr;
    call.table.embedding_forward(args, call.stream);
  };
  c.reference = [=, keep_tokens = tokens, keep_at = at](RealOperands& v) {
    embedding_forward_reference(a, v[2].data(), v[0].data(), positions ? v[1].data() : nullptr);
  };
  return c;
}

/// Returns every other row of a table of at least 2 n rows, from the last to the first. A fifth of the
/// indices are outside of the table.
Indices distinct_indices(int64_t n) {
  auto list = std::make_shared<std::vector<int32_t>>();
  for (int64_t r = 0; r < n; ++r) list->push_back(r % 5 == 4 ? -1 : static_cast<int32_t>(2 * (n - 1 - r)));
  return list;
}

OpCase embedding_backward_case(int64_t rows, int64_t d, int64_t table_rows, bool accumulate,
                               int32_t skip = -1, int64_t first = 0, bool distinct = false) {
  const Indices index = distinct ? distinct_indices(rows) : indices(rows, table_rows, 3);
  EmbeddingBackward a;
  a.index = index->data();
  a.rows = rows;
  a.d = d;
  a.table_rows = table_rows;
  a.scale = 1.25f;
  a.accumulate = accumulate;
  a.skip = skip;
  a.first = first;
  a.distinct = distinct;
  OpCase c = {"embedding_backward",
              std::to_string(rows) + "x" + std::to_string(d) + (accumulate ? "_accumulate" : "") +
                  (skip >= 0 ? "_skip" : "") + (first > 0 ? "_own_words" : "") +
                  (distinct ? "_distinct" : ""),
              {},
              nullptr,
              nullptr};
  c.operands = {input("dx", DType::kF32, rows * d, 1), accumulate
                                                           ? in_out("dweight", DType::kF32, table_rows * d, 2)
                                                           : output("dweight", DType::kF32, table_rows * d)};
  c.fast = [=, keep = index](const FastCall& call) {
    EmbeddingBackward args = a;
    args.dx = call.as<float>(0);
    args.dweight = call.as<float>(1);
    const int64_t bytes = call.table.embedding_backward_workspace_bytes(args, call.stream.num_workers);
    args.workspace = call.workspace(bytes);
    call.table.embedding_backward(args, call.stream);
  };
  c.reference = [=, keep = index](RealOperands& v) {
    embedding_backward_reference(a, v[1].data(), v[0].data());
  };
  return c;
}

GradientCase embedding_gradient() {
  const int64_t rows = 9, d = 3, vocab = 5, places = 4;
  const Indices tokens = indices(rows, vocab, 1), at = indices(rows, places, 2);
  EmbeddingForward a;
  a.tokens = tokens->data();
  a.positions = at->data();
  a.rows = rows;
  a.d = d;
  a.scale = 3.0f;
  GradientCase c = {"embedding_backward",
                    "tokens_and_positions",
                    {random_values(vocab * d, 1), random_values(places * d, 2)},
                    nullptr,
                    nullptr};
  c.forward = [=, keep_tokens = tokens, keep_at = at](const ComplexOperands& in) {
    std::vector<Complex> x(static_cast<size_t>(rows * d));
    embedding_forward_reference(a, x.data(), in[0].data(), in[1].data());
    return ComplexOperands{x};
  };
  c.backward = [=](const RealOperands& in, const RealOperands& dout) {
    RealOperands grads = in;
    EmbeddingBackward b;
    b.rows = rows;
    b.d = d;
    b.index = tokens->data();
    b.table_rows = vocab;
    b.scale = a.scale;
    embedding_backward_reference(b, grads[0].data(), dout[0].data());
    b.index = at->data();
    b.table_rows = places;
    b.scale = 1.0f;
    embedding_backward_reference(b, grads[1].data(), dout[0].data());
    return grads;
  };
  return c;
}

/// A rope problem with its cosines and sines, which include an attention factor, so they are not pure
/// rotations.
struct Turn {
  Rope a;
  Indices positions;
  std::shared_ptr<std::vector<float>> cos_sin = std::make_shared<std::vector<float>>();
};

Turn turn(int64_t rows, int64_t heads, int64_t d, int64_t gap, DType type, bool inverse) {
  const int64_t places = 50;
  Turn t;
  t.positions = indices(rows, places, 4);
  for (int64_t i = 0; i < places * d / 2; ++i) {
    t.cos_sin->push_back(1.1f * std::cos(0.37f * static_cast<float>(i)));
    t.cos_sin->push_back(1.1f * std::sin(0.37f * static_cast<float>(i)));
  }
  t.a.cos_sin = t.cos_sin->data();
  t.a.positions = t.positions->data();
  t.a.type = type;
  t.a.rows = rows;
  t.a.heads = heads;
  t.a.d = d;
  t.a.stride = heads * d + gap;
  t.a.inverse = inverse;
  return t;
}

OpCase rope_case(const Turn& t) {
  OpCase c = {"rope",
              std::to_string(t.a.rows) + "x" + std::to_string(t.a.heads) + "x" + std::to_string(t.a.d) +
                  (t.a.head_stride > t.a.d ? "_of_" + std::to_string(t.a.head_stride) : "") +
                  (t.a.interleaved ? "_interleaved" : "") + (t.a.inverse ? "_inverse/" : "/") +
                  type_word(t.a.type),
              {},
              nullptr,
              nullptr};
  c.operands = {in_out("x", t.a.type, t.a.rows * t.a.stride, 1, 1.0, 1e-6)};
  c.fast = [t](const FastCall& call) {
    Rope args = t.a;
    args.x = call.data[0];
    call.table.rope(args, call.stream);
  };
  c.reference = [t](RealOperands& v) { rope_reference(t.a, v[0].data()); };
  return c;
}

/// Rotates only a part of each head; `unturned` elements lie between the parts.
Turn turn_of_parts(Turn t, int64_t unturned) {
  t.a.head_stride = t.a.d + unturned;
  t.a.stride += t.a.heads * unturned;
  return t;
}

/// Rotates only a part of each head, in pairs of adjacent elements.
Turn turn_of_neighbours(Turn t, int64_t unturned) {
  t.a.interleaved = true;
  return turn_of_parts(t, unturned);
}

GradientCase rope_gradient() {
  const Turn t = turn(3, 2, 6, 1, DType::kF32, false);
  GradientCase c = {"rope", "inverse_turn", {random_values(t.a.rows * t.a.stride, 1)}, nullptr, nullptr};
  c.forward = [t](const ComplexOperands& in) {
    ComplexOperands out = in;
    rope_reference(t.a, out[0].data());
    return out;
  };
  c.backward = [t](const RealOperands&, const RealOperands& dout) {
    Rope back = t.a;
    back.inverse = true;
    RealOperands grads = dout;
    rope_reference(back, grads[0].data());
    return grads;
  };
  return c;
}

struct Branch {
  int64_t batch, seq, d;
  float p;
  DType type;
  int64_t first_row = 0;
};

using Samples = std::shared_ptr<std::vector<uint64_t>>;

Samples samples_of(const Branch& b) {
  auto samples = std::make_shared<std::vector<uint64_t>>();
  for (int64_t i = 0; i < b.batch + (b.first_row + b.seq - 1) / b.seq; ++i)
    samples->push_back(77 + 1000 * static_cast<uint64_t>(i));
  return samples;
}

template <class Args>
Args residual_args(const Branch& b, const Samples& samples) {
  Args a;
  a.branch_type = b.type;
  a.rows = b.batch * b.seq;
  a.d = b.d;
  a.seq = b.seq;
  a.dropout = {b.p, 0xfedcba9876543210ull, samples->data(), b.first_row};
  a.dropout.first_block = b.first_row;  // as if the operands also had only some of the features
  return a;
}

std::string name_of(const Branch& b) {
  return std::to_string(b.batch * b.seq) + "x" + std::to_string(b.d) + (b.p > 0 ? "_dropout" : "") +
         (b.first_row > 0 ? "_own_rows/" : "/") + type_word(b.type);
}

/// x and y have `type`. in_place: y is x. Without a branch, y is dropout(x).
OpCase residual_case(const Branch& b, DType type, bool branch, bool in_place) {
  const Samples samples = samples_of(b);
  auto a = residual_args<ResidualForward>(b, samples);
  a.type = type;
  const int64_t n = a.rows * a.d;
  const size_t y = in_place ? 0 : 2;
  OpCase c = {
      "residual_forward",
      name_of(b) + "_of_" + type_word(type) + (branch ? "" : "/no_branch") + (in_place ? "/in_place" : ""),
      {},
      nullptr,
      nullptr};
  c.operands = {in_place ? in_out("x", type, n, 1, 1.0, 1e-6) : input("x", type, n, 1),
                input("branch", b.type, n, 2)};
  if (!in_place) c.operands.push_back(output("y", type, n, 1e-6));
  c.fast = [=, keep = samples](const FastCall& call) {
    ResidualForward args = a;
    args.x = call.data[0];
    args.branch = branch ? call.data[1] : nullptr;
    args.y = call.data[y];
    call.table.residual_forward(args, call.stream);
  };
  c.reference = [=, keep = samples](RealOperands& v) {
    residual_forward_reference(a, v[y].data(), v[0].data(), branch ? v[1].data() : nullptr);
  };
  return c;
}

OpCase residual_backward_case(const Branch& b, bool in_place) {
  const Samples samples = samples_of(b);
  const auto a = residual_args<ResidualBackward>(b, samples);
  const int64_t n = a.rows * a.d;
  const size_t d = in_place ? 0 : 1;
  OpCase c = {"residual_backward", name_of(b) + (in_place ? "/in_place" : ""), {}, nullptr, nullptr};
  c.operands = {in_place ? in_out("dy", DType::kF32, n, 1, 1.0, 1e-6) : input("dy", DType::kF32, n, 1)};
  if (!in_place) c.operands.push_back(output("dbranch", b.type, n, 1e-6));
  c.fast = [=, keep = samples](const FastCall& call) {
    ResidualBackward args = a;
    args.dy = call.as<float>(0);
    args.dbranch = call.data[d];
    call.table.residual_backward(args, call.stream);
  };
  c.reference = [=, keep = samples](RealOperands& v) {
    residual_backward_reference(a, v[d].data(), v[0].data());
  };
  return c;
}

GradientCase residual_gradient() {
  const Branch b = {2, 3, 7, 0.4f, DType::kF32};
  const Samples samples = samples_of(b);
  const auto f = residual_args<ResidualForward>(b, samples);
  const int64_t n = f.rows * f.d;
  GradientCase c = {
      "residual_backward", "dropout", {random_values(n, 1), random_values(n, 2)}, nullptr, nullptr};
  c.forward = [=, keep = samples](const ComplexOperands& in) {
    std::vector<Complex> y(static_cast<size_t>(n));
    residual_forward_reference(f, y.data(), in[0].data(), in[1].data());
    return ComplexOperands{y};
  };
  c.backward = [=, keep = samples](const RealOperands&, const RealOperands& dout) {
    std::vector<double> dbranch(static_cast<size_t>(n));
    residual_backward_reference(residual_args<ResidualBackward>(b, keep), dbranch.data(), dout[0].data());
    return RealOperands{dout[0], dbranch};
  };
  return c;
}

}  // namespace op_cases_stream

void add_stream_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_stream;
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const bool positions : {false, true}) {
      if (type == DType::kF16) continue;  // tables are f32 under precision fp16
      for (const DType x : {DType::kF32, DType::kBf16}) {
        cases.push_back(embedding_case(1, 1, x, type, positions));
        cases.push_back(embedding_case(70, 101, x, type, positions));
        cases.push_back(embedding_case(70, 101, x, type, positions, true));
        cases.push_back(embedding_case(70, 64, x, type, positions));
      }
    }
    for (const bool inverse : {false, true}) {
      cases.push_back(rope_case(turn(5, 1, 2, 0, type, inverse)));
      cases.push_back(rope_case(turn(40, 3, 26, 7, type, inverse)));
      cases.push_back(rope_case(turn(9, 2, 128, 64, type, inverse)));
      cases.push_back(rope_case(turn_of_parts(turn(11, 3, 4, 7, type, inverse), 6)));
      cases.push_back(rope_case(turn_of_parts(turn(9, 2, 64, 64, type, inverse), 64)));
      cases.push_back(rope_case(turn_of_parts(turn(6, 8, 32, 0, type, inverse), 1)));
      cases.push_back(rope_case(turn_of_neighbours(turn(7, 3, 10, 5, type, inverse), 0)));
      cases.push_back(rope_case(turn_of_neighbours(turn(9, 2, 64, 64, type, inverse), 128)));
      cases.push_back(rope_case(turn_of_neighbours(turn(3, 1, 136, 0, type, inverse), 3)));
    }
    const Branch own_rows = {3, 11, 45, 0.3f, type, 16};
    for (const DType x : {DType::kF32, DType::kBf16})
      cases.push_back(residual_case(own_rows, x, true, false));
    cases.push_back(residual_backward_case(own_rows, false));
    for (const float p : {0.0f, 0.3f}) {
      for (const int64_t d : {45, 64}) {
        const Branch b = {3, 11, d, p, type};
        for (const bool in_place : {false, true}) {
          for (const DType x : {DType::kF32, DType::kBf16})
            for (const bool branch : {false, true}) cases.push_back(residual_case(b, x, branch, in_place));
          if (!in_place || type == DType::kF32) cases.push_back(residual_backward_case(b, in_place));
        }
      }
    }
  }
  for (const bool accumulate : {false, true}) {
    cases.push_back(embedding_backward_case(1, 1, 3, accumulate));
    cases.push_back(embedding_backward_case(300, 67, 20, accumulate));
    cases.push_back(embedding_backward_case(300, 1032, 20, accumulate));
    cases.push_back(embedding_backward_case(300, 67, 20, accumulate, 19));  // the most frequent index
    cases.push_back(embedding_backward_case(300, 67, 20, accumulate, 17, 6));
    cases.push_back(embedding_backward_case(20, 24, 41, accumulate, -1, 0, true));
    cases.push_back(embedding_backward_case(21, 7, 44, accumulate, -1, 0, true));
    // The first case has more rows per index than the CUDA kernel sorts. The second has a table of several
    // tiles.
    cases.push_back(embedding_backward_case(4500, 9, 2, accumulate));
    cases.push_back(embedding_backward_case(700, 5, 2100, accumulate));
  }
}

void add_stream_gradients(std::vector<GradientCase>& cases) {
  using namespace op_cases_stream;
  cases.push_back(embedding_gradient());
  cases.push_back(rope_gradient());
  cases.push_back(residual_gradient());
}

}  // namespace hawser::testing
