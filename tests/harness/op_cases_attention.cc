// Rows of the op-case table for attention: every mask, soft-cap, dropout, shared key-value heads, caches; in
// f32, in bf16, and in f32 with products of bf16 values.
#include <limits>
#include <memory>

#include "kernels/cpu/attention_reference.h"
#include "tests/harness/op_cases_attention.h"

namespace hawser::testing {
namespace op_cases_attention {

using kernels::AttentionBackward;
using kernels::AttentionForward;
using kernels::AttentionShape;
using Numbers = AttentionNumbers;
using Bound = BoundAttention;

/// One attention problem: q, k and v are in one fused buffer (training), or k and v in a cache (decoding).
struct Problem {
  std::string name;
  AttentionShape s;
  bool cache = false;     // k and v are separate from q, with kv_batch_rows rows
  int64_t documents = 0;  // kv_begin comes from documents of about this length
  float dropout = 0;
  double spread = 1.0;
  bool for_cpu_tiles = false;
};

Bound bind(const Problem& problem, const Numbers& numbers) {
  Bound bound;
  AttentionShape& s = bound.s = problem.s;
  s.type = numbers.type;
  s.round_to = numbers.round_to;
  const int64_t q_width = s.heads * s.head_dim, o_width = s.heads * s.v_dim();
  if (problem.cache) {
    s.q_stride = q_width + 3;
    s.kv_stride = s.kv_heads * s.larger_dim() + 5;
  } else {
    s.q_stride = s.kv_stride = q_width + s.kv_heads * (s.head_dim + s.v_dim());
  }
  s.o_stride = o_width + (o_width % 16 == 0 ? 8 : 1);
  if (s.kv_batch_rows == 0) s.kv_batch_rows = s.seq_k;
  for (int64_t row = 0; row < s.batch * s.seq_q && problem.documents > 0; ++row) {
    // Documents have unequal lengths; the first query of a document sees only itself.
    const int64_t position = s.q_offset + row % s.seq_q, cut = problem.documents + 2 * (row / s.seq_q);
    bound.kv_begin->push_back(static_cast<int32_t>(position / cut * cut));
  }
  if (problem.documents > 0) {
    s.kv_begin = bound.kv_begin->data();
    s.documents = s.batch * (s.q_offset + s.seq_q);  // an upper bound
  }
  for (int64_t b = 0; b < s.batch; ++b) bound.samples->push_back(1000003ull * static_cast<uint64_t>(b) + 17);
  s.dropout = {problem.dropout, 0x1234567890abcdefull, bound.samples->data()};
  return bound;
}

std::vector<Problem> training_problems() {
  std::vector<Problem> problems;
  problems.push_back({.name = "causal", .s = attention_shape(2, 70, 3, 3, 16)});
  problems.push_back({.name = "whole_panels", .s = attention_shape(1, 192, 2, 1, 64)});
  problems.push_back({.name = "maxima_that_rise", .s = attention_shape(1, 290, 2, 1, 32), .spread = 3.0});
  problems.push_back({.name = "one_token", .s = attention_shape(1, 1, 1, 1, 8)});
  problems.push_back({.name = "odd_head_dim", .s = attention_shape(1, 37, 2, 1, 7)});
  problems.push_back({.name = "heads_of_40", .s = attention_shape(2, 33, 2, 1, 40)});
  problems.push_back({.name = "heads_of_80", .s = attention_shape(1, 67, 2, 2, 80)});
  problems.push_back({.name = "heads_of_96", .s = attention_shape(1, 65, 2, 1, 96)});
  problems.push_back({.name = "heads_of_128", .s = attention_shape(1, 131, 2, 2, 128)});
  problems.push_back({.name = "heads_of_256", .s = attention_shape(1, 50, 2, 1, 256)});
  problems.push_back({.name = "several_chunks", .s = attention_shape(1, 140, 2, 1, 1024)});
  // Some queries see only keys of later chunks.
  Problem chunks_in_window = {.name = "several_chunks_in_window", .s = attention_shape(1, 300, 2, 1, 1024)};
  chunks_in_window.s.window = 20;
  problems.push_back(chunks_in_window);
  problems.push_back({.name = "grouped", .s = attention_shape(2, 129, 6, 2, 20)});
  problems.push_back({.name = "many_tiles", .s = attention_shape(1, 700, 2, 1, 32), .for_cpu_tiles = true});
  problems.push_back({.name = "documents", .s = attention_shape(2, 150, 2, 2, 24), .documents = 23});
  Problem in_window = {
      .name = "documents_in_window", .s = attention_shape(2, 150, 4, 2, 16), .documents = 41};
  in_window.s.window = 17;
  problems.push_back(in_window);
  problems.push_back({.name = "dropout", .s = attention_shape(2, 130, 4, 2, 16), .dropout = 0.3f});
  problems.push_back({.name = "large_scores", .s = attention_shape(1, 90, 2, 2, 32), .spread = 6.0});
  Problem window = {.name = "window", .s = attention_shape(2, 200, 2, 2, 16)};
  window.s.window = 33;
  problems.push_back(window);
  window.name = "window_of_one";
  window.s.window = 1;
  problems.push_back(window);
  Problem softcap = {.name = "softcap", .s = attention_shape(1, 100, 2, 1, 16), .spread = 2.0};
  softcap.s.softcap = 5.0f;
  problems.push_back(softcap);
  Problem all = {
      .name = "everything", .s = attention_shape(2, 260, 4, 2, 19), .documents = 61, .dropout = 0.1f};
  all.s.window = 40;
  all.s.softcap = 3.0f;
  problems.push_back(all);
  return problems;
}

/// Heads of values that are narrower or wider than those of keys.
std::vector<Problem> unequal_problems() {
  std::vector<Problem> problems;
  problems.push_back({.name = "values_of_12", .s = with_values(attention_shape(2, 70, 3, 3, 20), 12)});
  problems.push_back({.name = "values_of_40", .s = with_values(attention_shape(2, 67, 4, 2, 24), 40)});
  problems.push_back({.name = "values_of_128", .s = with_values(attention_shape(1, 131, 2, 1, 192), 128)});
  problems.push_back({.name = "values_of_1", .s = with_values(attention_shape(1, 37, 2, 1, 33), 1)});
  problems.push_back({.name = "values_in_chunks", .s = with_values(attention_shape(1, 300, 2, 1, 96), 1024)});
  Problem all = {.name = "values_and_everything",
                 .s = with_values(attention_shape(2, 260, 4, 2, 19), 35),
                 .documents = 61,
                 .dropout = 0.1f};
  all.s.window = 40;
  all.s.softcap = 3.0f;
  problems.push_back(all);
  return problems;
}

std::vector<Problem> cache_problems() {
  std::vector<Problem> problems;
  Problem one = {.name = "cache_one_query", .s = attention_shape(2, 1, 6, 2, 32), .cache = true};
  one.s.seq_k = 201;
  one.s.q_offset = 200;
  one.s.kv_batch_rows = 256;
  problems.push_back(one);
  Problem few = {
      .name = "cache_few_queries", .s = attention_shape(2, 5, 8, 2, 17), .cache = true, .documents = 50};
  few.s.seq_k = 130;
  few.s.q_offset = 125;
  few.s.kv_batch_rows = 140;
  problems.push_back(few);
  Problem chunk = {.name = "cache_chunk", .s = attention_shape(1, 100, 4, 1, 16), .cache = true};
  chunk.s.seq_k = 333;
  chunk.s.q_offset = 233;
  chunk.s.kv_batch_rows = 333;
  chunk.s.window = 90;
  problems.push_back(chunk);
  chunk.name = "cache_chunk_values_of_24";
  chunk.s.value_dim = 24;
  problems.push_back(chunk);
  return problems;
}

double nan() { return std::numeric_limits<double>::quiet_NaN(); }

/// Offsets of q, k and v in the operands: one fused buffer, or q and a cache that holds k and v separately.
struct Places {
  size_t k_operand, v_operand;
  int64_t k, v;
};

Places places(const Problem& problem) {
  const AttentionShape& s = problem.s;
  if (problem.cache) return {1, 2, 0, 0};
  return {0, 0, s.heads * s.head_dim, (s.heads + s.kv_heads) * s.head_dim};
}

/// Returns the operands q (or qkv), and k and v if they are separate. Rows of a cache that no query sees are
/// NaN.
std::vector<Operand> sources(const Problem& problem, const Numbers& numbers, const Bound& bound) {
  const AttentionShape& s = bound.s;
  std::vector<Operand> operands = {multiplied(
      input(problem.cache ? "q" : "qkv", s.type, bound.q_rows() * s.q_stride, 1, problem.spread), numbers)};
  if (!problem.cache) return operands;
  for (const char* name : {"k", "v"}) {
    operands.push_back(multiplied(
        input(name, s.type, bound.kv_rows() * s.kv_stride, 2 + (*name == 'v'), problem.spread), numbers));
    for (int64_t row = 0; row < bound.kv_rows(); ++row) {
      const int64_t key = row % s.kv_batch_rows;
      bool seen = false;
      for (int64_t t = 0; t < s.seq_q; ++t) {
        const kernels::VisibleKeys keys = kernels::visible_keys(s, row / s.kv_batch_rows, t);
        seen = seen || (key >= keys.begin && key < keys.end);
      }
      for (int64_t j = 0; j < s.kv_stride && !seen; ++j) operands.back().value[row * s.kv_stride + j] = nan();
    }
  }
  return operands;
}

void* offset(void* base, int64_t elements, DType type) {
  return static_cast<char*>(base) + elements * dtype_bytes(type);
}

OpCase forward_case(const Problem& problem, const Numbers& numbers) {
  const DType type = numbers.type;
  const Bound bound = bind(problem, numbers);
  const AttentionShape s = bound.s;
  const Places at = places(problem);
  OpCase c = {"attention_forward", problem.name + "/" + numbers.word(), sources(problem, numbers, bound),
              nullptr, nullptr};
  c.cpu_only = s.larger_dim() > 256 || numbers.product() == DType::kF16,
  c.for_cpu_tiles = problem.for_cpu_tiles;
  const size_t o = c.operands.size();
  c.operands.push_back(output("o", type, bound.q_rows() * s.o_stride, numbers.forward_tolerance()));
  c.operands.push_back(output("lse", DType::kF32, s.batch * s.heads * s.seq_q));
  c.fast = [=, keep = bound](const FastCall& call) {
    AttentionForward args = {s,
                             call.data[o],
                             call.as<float>(o + 1),
                             call.data[0],
                             offset(call.data[at.k_operand], at.k, type),
                             offset(call.data[at.v_operand], at.v, type),
                             nullptr};
    args.workspace =
        call.workspace(call.table.attention_forward_workspace_bytes(args, call.stream.num_workers));
    call.table.attention_forward(args, call.stream);
  };
  c.reference = [=, keep = bound](RealOperands& x) {
    kernels::attention_forward_reference(s, x[o].data(), x[o + 1].data(), x[0].data(),
                                         x[at.k_operand].data() + at.k, x[at.v_operand].data() + at.v);
  };
  return c;
}

OpCase backward_case(const Problem& problem, const Numbers& numbers) {
  const DType type = numbers.type;
  const Bound bound = bind(problem, numbers);
  const AttentionShape s = bound.s;
  const Places at = places(problem);
  OpCase c = {"attention_backward", problem.name + "/" + numbers.word(), sources(problem, numbers, bound),
              nullptr, nullptr};
  c.cpu_only = s.larger_dim() > 256 || numbers.product() == DType::kF16,
  c.for_cpu_tiles = problem.for_cpu_tiles;
  c.operands.push_back(multiplied(input("dout", type, bound.q_rows() * s.o_stride, 4), numbers));
  c.operands.push_back(input("o", type, bound.q_rows() * s.o_stride, 0, 0.0));
  c.operands.push_back(input("lse", DType::kF32, s.batch * s.heads * s.seq_q, 0, 0.0));
  c.operands.push_back(
      output("dqkv", type, bound.q_rows() * s.q_stride, numbers.backward_tolerance(problem.spread)));
  const double* qkv = c.operands[0].value.data();
  std::vector<double>&o = c.operands[2].value, &lse = c.operands[3].value;
  kernels::attention_forward_reference(s, o.data(), lse.data(), qkv, qkv + at.k, qkv + at.v);
  for (double& x : o) x = rounded(x, type);
  for (double& x : lse) x = rounded(x, DType::kF32);
  c.fast = [=, keep = bound](const FastCall& call) {
    AttentionBackward args = {s,
                              call.data[4],
                              offset(call.data[4], at.k, type),
                              offset(call.data[4], at.v, type),
                              call.data[1],
                              call.data[2],
                              call.as<float>(3),
                              call.data[0],
                              offset(call.data[0], at.k, type),
                              offset(call.data[0], at.v, type),
                              nullptr};
    args.workspace =
        call.workspace(call.table.attention_backward_workspace_bytes(args, call.stream.num_workers));
    call.table.attention_backward(args, call.stream);
  };
  c.reference = [=, keep = bound](RealOperands& x) {
    double *dqkv = x[4].data(), *in = x[0].data();
    kernels::attention_backward_reference(s, dqkv, dqkv + at.k, dqkv + at.v, x[1].data(), x[2].data(),
                                          x[3].data(), in, in + at.k, in + at.v);
  };
  return c;
}

/// Shapes are small, because complex step calls the forward once for each element of qkv.
GradientCase gradient_case(Problem problem) {
  const Bound bound = bind(problem, {DType::kF32});
  const AttentionShape s = bound.s;
  const Places at = places(problem);
  const int64_t n_o = bound.q_rows() * s.o_stride, n_lse = s.batch * s.heads * s.seq_q;
  GradientCase c = {"attention_backward", problem.name, {}, nullptr, nullptr};
  c.inputs.push_back(random_values(bound.q_rows() * s.q_stride, 5, problem.spread));
  c.forward = [=, keep = bound](const ComplexOperands& in) {
    std::vector<Complex> o(static_cast<size_t>(n_o)), lse(static_cast<size_t>(n_lse));
    const Complex* qkv = in[0].data();
    kernels::attention_forward_reference(s, o.data(), lse.data(), qkv, qkv + at.k, qkv + at.v);
    return ComplexOperands{o};
  };
  c.backward = [=, keep = bound](const RealOperands& in, const RealOperands& dout) {
    std::vector<double> o(static_cast<size_t>(n_o)), lse(static_cast<size_t>(n_lse)), dqkv(in[0].size());
    const double* qkv = in[0].data();
    double* d = dqkv.data();
    kernels::attention_forward_reference(s, o.data(), lse.data(), qkv, qkv + at.k, qkv + at.v);
    kernels::attention_backward_reference(s, d, d + at.k, d + at.v, dout[0].data(), o.data(), lse.data(), qkv,
                                          qkv + at.k, qkv + at.v);
    return RealOperands{dqkv};
  };
  return c;
}

}  // namespace op_cases_attention

void add_attention_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_attention;
  for (const Numbers& numbers : kAttentionNumbers) {
    for (const auto& problems : {training_problems(), unequal_problems()}) {
      for (const Problem& problem : problems) {
        cases.push_back(forward_case(problem, numbers));
        cases.push_back(backward_case(problem, numbers));
      }
    }
    for (const Problem& problem : cache_problems()) cases.push_back(forward_case(problem, numbers));
  }
  add_attention_piece_cases(cases);
}

void add_attention_gradients(std::vector<GradientCase>& cases) {
  using namespace op_cases_attention;
  cases.push_back(gradient_case({.name = "causal", .s = attention_shape(2, 6, 2, 2, 3)}));
  cases.push_back(gradient_case({.name = "grouped", .s = attention_shape(1, 7, 4, 2, 3)}));
  cases.push_back(
      gradient_case({.name = "values_of_2", .s = with_values(attention_shape(2, 6, 2, 1, 3), 2)}));
  Problem all = {.name = "everything", .s = attention_shape(2, 9, 2, 1, 3), .documents = 5, .dropout = 0.25f};
  all.s.window = 4;
  all.s.softcap = 1.5f;
  cases.push_back(gradient_case(all));
}

}  // namespace hawser::testing
