// Rows of the op-case table for attention over parts of rows: queries and keys in any columns, results that
// merge, gradients that accumulate. k and v are separate from q, as in a cache; "cache" in a name refers to
// this.
#include <limits>

#include "kernels/cpu/attention_reference.h"
#include "tests/harness/op_cases_attention.h"

namespace hawser::testing {
namespace op_cases_attention_pieces {

using kernels::AttentionBackward;
using kernels::AttentionForward;
using kernels::AttentionShape;
using Numbers = AttentionNumbers;
using Bound = BoundAttention;

constexpr double kNothing = -std::numeric_limits<double>::infinity();

/// The columns of queries and keys, and the form of the results.
struct Piece {
  std::string name;
  AttentionShape s;
  int64_t documents = 0;  // kv_begin comes from documents of about this length
  float dropout = 0;
  double spread = 1.0;
  bool f32_out = false, combine = false;  // merge in the forward; accumulate both in the backward
  bool only_q = false, only_kv = false;   // accumulate only these
  int64_t dq_gap = 0, dkv_gap = 0;        // extra strides of the gradients
};

/// Puts queries at columns q_offset and on, keys at columns k_offset and on.
AttentionShape columns(AttentionShape s, int64_t q_offset, int64_t k_offset, int64_t seq_k) {
  s.q_offset = q_offset;
  s.k_offset = k_offset;
  s.seq_k = seq_k;
  return s;
}

AttentionShape within(AttentionShape s, int64_t window) {
  s.window = window;
  return s;
}

void add_columns(std::vector<Piece>& pieces) {
  const AttentionShape s = attention_shape(2, 70, 4, 2, 16), one = attention_shape(1, 130, 2, 2, 16);
  pieces.push_back({.name = "keys_before", .s = columns(s, 100, 20, 60)});
  pieces.push_back({.name = "keys_partly_after", .s = columns(s, 30, 60, 100)});
  pieces.push_back({.name = "keys_wholly_after", .s = columns(s, 0, 71, 50)});
  pieces.push_back({.name = "keys_wholly_after_combined", .s = columns(s, 0, 71, 50), .combine = true});
  pieces.push_back({.name = "keys_before_adding_to_q", .s = columns(s, 100, 20, 60), .only_q = true});
  pieces.push_back({.name = "keys_before_adding_to_kv", .s = columns(s, 100, 20, 60), .only_kv = true});
  pieces.push_back({.name = "keys_after_adding_to_q", .s = columns(s, 0, 71, 50), .only_q = true});
  pieces.push_back({.name = "keys_after_adding_to_kv", .s = columns(s, 0, 71, 50), .only_kv = true});
  pieces.push_back({.name = "same_columns", .s = columns(attention_shape(1, 150, 2, 1, 64), 37, 37, 150)});
  pieces.push_back({.name = "window", .s = within(columns(one, 200, 100, 90), 40)});
  pieces.push_back({.name = "window_combined", .s = within(columns(one, 200, 100, 90), 40), .combine = true});
  pieces.push_back({.name = "window_short_of_the_keys", .s = within(columns(one, 300, 0, 64), 50)});
  pieces.push_back({.name = "few_keys_in_window", .s = within(columns(one, 0, 60, 5), 3)});
  pieces.push_back({.name = "few_queries", .s = columns(attention_shape(2, 3, 8, 2, 16), 50, 49, 200)});
  pieces.push_back({.name = "documents", .s = columns(s, 64, 30, 80), .documents = 23});
  pieces.push_back({.name = "documents_across", .s = columns(s, 90, 30, 61), .documents = 80});
  pieces.push_back(
      {.name = "documents_combined", .s = columns(s, 64, 30, 35), .documents = 23, .combine = true});
  const AttentionShape many = attention_shape(1, 400, 1, 1, 16);
  pieces.push_back(
      {.name = "many_keys_before", .s = columns(attention_shape(1, 140, 2, 1, 16), 800, 0, 800)});
  pieces.push_back({.name = "many_keys_after", .s = columns(many, 0, 250, 900), .combine = true});
  pieces.push_back({.name = "many_keys_in_window", .s = within(columns(many, 500, 130, 800), 300)});
  pieces.push_back({.name = "heads_of_1024",
                    .s = within(columns(attention_shape(1, 200, 2, 1, 1024), 150, 20, 280), 90),
                    .combine = true});
}

void add_results(std::vector<Piece>& pieces) {
  const AttentionShape s = columns(attention_shape(2, 90, 4, 2, 19), 41, 13, 100);
  pieces.push_back({.name = "odd_head_dim", .s = s});
  pieces.push_back({.name = "f32_out", .s = s, .f32_out = true});
  pieces.push_back({.name = "combined", .s = s, .combine = true});
  for (const int64_t value_dim : {11, 40})
    for (const bool combine : {false, true})
      pieces.push_back({.name = "values_of_" + std::to_string(value_dim) + (combine ? "_combined" : ""),
                        .s = with_values(s, value_dim),
                        .combine = combine,
                        .dkv_gap = combine ? 8 : 0});
  pieces.push_back({.name = "own_strides", .s = s, .dq_gap = 7, .dkv_gap = 5});
  pieces.push_back({.name = "own_strides_combined", .s = s, .combine = true, .dq_gap = 8, .dkv_gap = 16});
  Piece rows = {.name = "more_rows", .s = s, .documents = 33};
  rows.s.q_batch_rows = 99;
  pieces.push_back(rows);
  rows.name = "more_rows_combined";
  rows.combine = true;
  pieces.push_back(rows);
  Piece softcap = {.name = "softcap", .s = s, .spread = 2.0, .f32_out = true};
  softcap.s.softcap = 5.0f;
  pieces.push_back(softcap);
  for (const int64_t k_offset : {13, 14, 15, 16}) {
    const AttentionShape at = columns(attention_shape(2, 135, 2, 1, 16), 41, k_offset, 131);
    pieces.push_back({.name = "dropout_from_" + std::to_string(k_offset), .s = at, .dropout = 0.3f});
  }
  Piece all = {.name = "everything",
               .s = columns(attention_shape(2, 200, 4, 2, 19), 101, 55, 190),
               .documents = 61,
               .dropout = 0.1f,
               .combine = true,
               .dq_gap = 3,
               .dkv_gap = 9};
  all.s.window = 70;
  all.s.softcap = 3.0f;
  all.s.q_batch_rows = 203;
  pieces.push_back(all);
}

Bound bind(const Piece& piece, const Numbers& numbers) {
  Bound bound;
  AttentionShape& s = bound.s = piece.s;
  s.type = numbers.type;
  s.round_to = numbers.round_to;
  const int64_t o_width = s.heads * s.v_dim();
  s.q_stride = s.heads * s.head_dim + 3;
  s.kv_stride = s.kv_heads * s.larger_dim() + 5;
  s.o_stride = o_width + (o_width % 16 == 0 ? 8 : 1);
  s.kv_batch_rows = s.seq_k + 2;
  for (int64_t row = 0; row < bound.q_rows() && piece.documents > 0; ++row) {
    // Documents have unequal lengths. A few queries see nothing at all, not even themselves.
    const int64_t column = s.q_offset + row % s.q_rows(), cut = piece.documents + 2 * (row / s.q_rows());
    bound.kv_begin->push_back(static_cast<int32_t>(row % 29 == 28 ? column + 1 : column / cut * cut));
  }
  if (piece.documents > 0) s.kv_begin = bound.kv_begin->data();
  for (int64_t b = 0; b < s.batch; ++b) bound.samples->push_back(1000003ull * static_cast<uint64_t>(b) + 17);
  s.dropout = {piece.dropout, 0x1234567890abcdefull, bound.samples->data()};
  return bound;
}

/// Returns the range from the first to the last key that a query of batch row b sees.
kernels::VisibleKeys keys_seen(const AttentionShape& s, int64_t b) {
  kernels::VisibleKeys seen = {s.seq_k, 0};
  for (int64_t t = 0; t < s.seq_q; ++t) {
    const kernels::VisibleKeys keys = kernels::visible_keys(s, b, t);
    if (keys.begin == keys.end) continue;
    seen = {std::min(seen.begin, keys.begin), std::max(seen.end, keys.end)};
  }
  return seen;
}

/// Returns q, k and v. If `poison`, keys before the first and after the last key that a query sees are NaN.
std::vector<Operand> sources(const Piece& piece, const Numbers& numbers, const Bound& bound, bool poison) {
  const AttentionShape& s = bound.s;
  const double spread = piece.spread;
  std::vector<Operand> operands = {
      multiplied(input("q", s.type, bound.q_rows() * s.q_stride, 1, spread), numbers),
      multiplied(input("k", s.type, bound.kv_rows() * s.kv_stride, 2, spread), numbers),
      multiplied(input("v", s.type, bound.kv_rows() * s.kv_stride, 3, spread), numbers)};
  for (int64_t row = 0; row < bound.kv_rows() && poison; ++row) {
    const int64_t key = row % s.kv_batch_rows;
    const kernels::VisibleKeys seen = keys_seen(s, row / s.kv_batch_rows);
    if (key >= seen.begin && key < seen.end) continue;
    for (size_t kv = 1; kv < 3; ++kv)
      std::fill_n(operands[kv].value.begin() + row * s.kv_stride, s.kv_stride,
                  std::numeric_limits<double>::quiet_NaN());
  }
  return operands;
}

/// The result over other keys, of which some queries saw none.
struct Others {
  std::vector<double> o, lse;
};

Others others(const Bound& bound) {
  const AttentionShape& s = bound.s;
  Others made = {random_values(bound.q_rows() * s.o_stride, 5),
                 random_values(bound.q_rows() * s.heads, 6, 2.0)};
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < s.heads * s.seq_q; ++i) {
      const int64_t head = i / s.seq_q, t = i % s.seq_q;
      if ((t + head) % 7 != 3) continue;
      made.lse[static_cast<size_t>((b * s.heads + head) * s.q_rows() + t)] = kNothing;
      std::fill_n(made.o.begin() + (b * s.q_rows() + t) * s.o_stride + head * s.v_dim(), s.v_dim(), 0.0);
    }
  }
  return made;
}

OpCase forward_case(const Piece& piece, const Numbers& numbers) {
  const Bound bound = bind(piece, numbers);
  const AttentionShape s = bound.s;
  OpCase c = {"attention_forward", "cache_piece_" + piece.name + "/" + numbers.word(),
              sources(piece, numbers, bound, true), nullptr, nullptr};
  c.cpu_only = s.larger_dim() > 256 || numbers.product() == DType::kF16;
  const bool f32 = piece.f32_out || piece.combine;
  c.operands.push_back(output("o", f32 ? DType::kF32 : numbers.type, bound.q_rows() * s.o_stride,
                              numbers.forward_tolerance()));
  c.operands.push_back(output("lse", DType::kF32, bound.q_rows() * s.heads));
  if (piece.combine) {
    const Others other = others(bound);
    c.operands[3].role = c.operands[4].role = Role::kInOut;
    c.operands[3].value = other.o;
    c.operands[4].value = other.lse;
  }
  c.fast = [=, keep = bound](const FastCall& call) {
    AttentionForward args = {
        s, call.data[3], call.as<float>(4), call.data[0], call.data[1], call.data[2], nullptr};
    args.f32_out = f32;
    args.merge = piece.combine;
    args.workspace =
        call.workspace(call.table.attention_forward_workspace_bytes(args, call.stream.num_workers));
    call.table.attention_forward(args, call.stream);
  };
  c.reference = [=, keep = bound](RealOperands& x) {
    kernels::attention_forward_reference(s, x[3].data(), x[4].data(), x[0].data(), x[1].data(), x[2].data(),
                                         piece.combine);
  };
  return c;
}

/// Adds dout, o and lse; the last two are the result over both the other keys and these.
void push_saved(OpCase& c, const Bound& bound, const Numbers& numbers) {
  const AttentionShape& s = bound.s;
  Others all = others(bound);
  kernels::attention_forward_reference(s, all.o.data(), all.lse.data(), c.operands[0].value.data(),
                                       c.operands[1].value.data(), c.operands[2].value.data(), true);
  for (double& x : all.o) x = rounded(x, numbers.type);
  for (double& x : all.lse) x = rounded(x, DType::kF32);
  const int64_t n = bound.q_rows() * s.o_stride;
  c.operands.push_back(multiplied(input("dout", numbers.type, n, 4), numbers));
  c.operands.push_back(input("o", numbers.type, n, 0, 0.0));
  c.operands.back().value = all.o;
  c.operands.push_back(input("lse", DType::kF32, bound.q_rows() * s.heads, 0, 0.0));
  c.operands.back().value = all.lse;
}

OpCase backward_case(const Piece& piece, const Numbers& numbers) {
  const Bound bound = bind(piece, numbers);
  const AttentionShape s = bound.s;
  OpCase c = {"attention_backward", "cache_piece_" + piece.name + "/" + numbers.word(),
              sources(piece, numbers, bound, false), nullptr, nullptr};
  c.cpu_only = s.larger_dim() > 256 || numbers.product() == DType::kF16;
  push_saved(c, bound, numbers);
  const bool to_q = piece.combine || piece.only_q, to_kv = piece.combine || piece.only_kv;
  const bool f32 = piece.f32_out || to_q || to_kv;
  const DType type = f32 ? DType::kF32 : numbers.type;
  const double tolerance = numbers.backward_tolerance(piece.spread);
  const int64_t dq_stride = piece.dq_gap > 0 ? s.q_stride + piece.dq_gap : 0;
  const int64_t dkv_stride = piece.dkv_gap > 0 ? s.kv_stride + piece.dkv_gap : 0;
  const int64_t n_q = bound.q_rows() * (s.q_stride + piece.dq_gap);
  const int64_t n_kv = bound.kv_rows() * (s.kv_stride + piece.dkv_gap);
  for (const char* name : {"dq", "dk", "dv"}) {
    const int64_t n = name[1] == 'q' ? n_q : n_kv;
    c.operands.push_back((name[1] == 'q' ? to_q : to_kv) ? in_out(name, type, n, 7, 1.0, tolerance)
                                                         : output(name, type, n, tolerance));
  }
  c.fast = [=, keep = bound](const FastCall& call) {
    AttentionBackward args = {s,
                              call.data[6],
                              call.data[7],
                              call.data[8],
                              call.data[3],
                              call.data[4],
                              call.as<float>(5),
                              call.data[0],
                              call.data[1],
                              call.data[2],
                              nullptr};
    args.f32_out = f32;
    args.accumulate_q = to_q, args.accumulate_kv = to_kv;
    args.dq_stride = dq_stride, args.dkv_stride = dkv_stride;
    args.workspace =
        call.workspace(call.table.attention_backward_workspace_bytes(args, call.stream.num_workers));
    call.table.attention_backward(args, call.stream);
  };
  c.reference = [=, keep = bound](RealOperands& x) {
    kernels::attention_backward_reference(s, x[6].data(), x[7].data(), x[8].data(), x[3].data(), x[4].data(),
                                          x[5].data(), x[0].data(), x[1].data(), x[2].data(),
                                          {to_q, to_kv, dq_stride, dkv_stride});
  };
  return c;
}

}  // namespace op_cases_attention_pieces

void add_attention_piece_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_attention_pieces;
  std::vector<Piece> pieces;
  add_columns(pieces);
  add_results(pieces);
  for (const Numbers& numbers : kAttentionNumbers) {
    for (const Piece& piece : pieces) {
      cases.push_back(forward_case(piece, numbers));
      cases.push_back(backward_case(piece, numbers));
    }
  }
}

}  // namespace hawser::testing
