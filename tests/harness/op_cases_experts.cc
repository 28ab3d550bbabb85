// Rows of the op-case table for routed rows, products of many experts, and the activation of experts.
#include <memory>
#include <numeric>

#include "kernels/cpu/activation_reference.h"
#include "kernels/cpu/matmul_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_experts {

using kernels::Activation;
using kernels::CombineRows;
using kernels::ExpertActivationBackward;
using kernels::ExpertActivationForward;
using kernels::GatherRows;
using kernels::GroupedMatmul;
using kernels::GroupRows;

/// Number of rows of each expert, and a name for this load.
struct Load {
  std::string name;
  std::vector<int64_t> rows;
  int64_t total() const { return std::accumulate(rows.begin(), rows.end(), int64_t{0}); }
  std::vector<double> offsets() const {
    std::vector<double> offsets = {0};
    for (const int64_t n : rows) offsets.push_back(offsets.back() + static_cast<double>(n));
    return offsets;
  }
};

std::vector<Load> loads() {
  return {{"balanced", {16, 17, 15}},
          {"one_has_all", {0, 70, 0, 0}},
          {"some_idle", {0, 3, 0, 129, 1, 0}},
          {"one_row", {0, 0, 1}},
          {"none", {0, 0}}};
}

/// Returns choices of rows: k different experts for each, ascending.
std::vector<double> choices(int64_t rows, int64_t top_k, int64_t experts, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> all;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<int64_t> of_row(static_cast<size_t>(experts));
    std::iota(of_row.begin(), of_row.end(), int64_t{0});
    std::shuffle(of_row.begin(), of_row.end(), random);
    std::sort(of_row.begin(), of_row.begin() + top_k);
    for (int64_t j = 0; j < top_k; ++j) all.push_back(static_cast<double>(of_row[static_cast<size_t>(j)]));
  }
  return all;
}

/// Computes offsets, order and place by their definition: expert after expert.
void group_reference(const GroupRows& g, const std::vector<double>& choice, std::vector<double>* offsets,
                     std::vector<double>* order, std::vector<double>* place) {
  std::vector<double> by_place;
  *offsets = {0};
  for (int64_t e = 0; e < g.experts; ++e) {
    int64_t taken = 0;
    for (size_t c = 0; c < choice.size(); ++c) {
      if (choice[c] != static_cast<double>(e)) continue;
      const bool fits = g.capacity == 0 || taken++ < g.capacity;
      (*place)[c] = fits ? static_cast<double>(by_place.size()) : -1;
      if (fits) by_place.push_back(static_cast<double>(c));
    }
    offsets->push_back(static_cast<double>(by_place.size()));
  }
  std::copy(by_place.begin(), by_place.end(), order->begin());
}

/// `order` is not written after the last slot: it keeps its values.
OpCase group_case(int64_t rows, int64_t top_k, int64_t experts, int64_t capacity) {
  GroupRows args;
  args.rows = rows, args.top_k = top_k, args.experts = experts, args.capacity = capacity;
  OpCase c = {"group_rows",
              std::to_string(rows) + "x" + std::to_string(top_k) + "of" + std::to_string(experts) +
                  (capacity > 0 ? "/capacity" + std::to_string(capacity) : ""),
              {},
              nullptr,
              nullptr};
  const auto n = static_cast<size_t>(rows * top_k);
  c.operands = {whole_numbers("choice", choices(rows, top_k, experts, 1)),
                output("offsets", DType::kI32, experts + 1, 0),
                whole_numbers("order", std::vector<double>(n, -7), Role::kInOut),
                output("place", DType::kI32, rows * top_k, 0)};
  c.fast = [=](const FastCall& call) {
    GroupRows g = args;
    g.choice = call.as<int32_t>(0), g.offsets = call.as<int32_t>(1);
    g.order = call.as<int32_t>(2), g.place = call.as<int32_t>(3);
    g.workspace = static_cast<int32_t*>(call.workspace(4 * experts));
    call.table.group_rows(g, call.stream);
  };
  c.reference = [=](RealOperands& x) { group_reference(args, x[0], &x[1], &x[2], &x[3]); };
  return c;
}

/// all false: fewer rows than the buffers hold. all true: all rows, by a null end, but some of them stay
/// unchanged.
OpCase gather_case(int64_t rows, int64_t top_k, int64_t d, DType type, bool all = false) {
  OpCase c = {"gather_rows",
              std::to_string(rows) + "x" + std::to_string(d) + "/" + type_word(type) + (all ? "/all" : ""),
              {},
              nullptr,
              nullptr};
  const int64_t places = rows * top_k, end = all ? places : places - places / 4;
  std::vector<double> order(static_cast<size_t>(places));
  for (int64_t p = 0; p < places; ++p)
    order[static_cast<size_t>(p)] = all && p % 5 == 3 ? -1 : static_cast<double>(p * 7 % places);
  c.operands = {input("x", type, rows * d, 1), whole_numbers("order", order),
                whole_numbers("end", {static_cast<double>(end)}),
                all ? in_out("y", type, places * d, 2) : output("y", type, places * d, 0)};
  c.fast = [=](const FastCall& call) {
    call.table.gather_rows({call.data[3], call.data[0], call.as<int32_t>(1),
                            all ? nullptr : call.as<int32_t>(2), type, places, top_k, d},
                           call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (int64_t i = 0; i < end * d; ++i) {
      const auto from = static_cast<int64_t>(x[1][static_cast<size_t>(i / d)]);
      if (from >= 0) x[3][static_cast<size_t>(i)] = x[0][static_cast<size_t>(from / top_k * d + i % d)];
    }
  };
  return c;
}

OpCase combine_case(int64_t rows, int64_t top_k, int64_t d, bool accumulate, DType round_to) {
  OpCase c = {"combine_rows",
              std::to_string(rows) + "x" + std::to_string(top_k) + "x" + std::to_string(d) +
                  (accumulate ? "/added" : "") +
                  (round_to != DType::kF32 ? "/to_" + type_word(round_to) : ""),
              {},
              nullptr,
              nullptr};
  const int64_t places = rows * top_k;
  std::vector<double> place(static_cast<size_t>(places));
  for (int64_t p = 0; p < places; ++p)
    place[static_cast<size_t>(p)] = static_cast<double>(p % 5 == 3 ? -1 : p * 7 % places);
  c.operands = {input("x", DType::kF32, places * d, 1), whole_numbers("place", place),
                accumulate ? in_out("y", DType::kF32, rows * d, 2) : output("y", DType::kF32, rows * d)};
  c.fast = [=](const FastCall& call) {
    call.table.combine_rows(
        {call.as<float>(2), call.as<float>(0), call.as<int32_t>(1), rows, top_k, d, accumulate, round_to},
        call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (int64_t i = 0; i < rows * d; ++i) {
      double sum = accumulate ? x[2][static_cast<size_t>(i)] : 0;
      for (int64_t j = 0; j < top_k; ++j) {
        const auto at = static_cast<int64_t>(x[1][static_cast<size_t>(i / d * top_k + j)]);
        if (at < 0) continue;
        const double addend = x[0][static_cast<size_t>(at * d + i % d)];
        sum += rounded(addend, round_to);
      }
      x[2][static_cast<size_t>(i)] = sum;
    }
  };
  return c;
}

/// Computes one product for each expert, in double.
void grouped_reference(const GroupedMatmul& m, const Load& load, const std::vector<double>& a,
                       const std::vector<double>& b, std::vector<double>* c) {
  const auto value = [&](double x) { return rounded(x, product_type(m)); };
  int64_t row = 0;
  for (int64_t g = 0; g < m.groups; ++g) {
    const int64_t end = row + load.rows[static_cast<size_t>(g)], size = m.k * m.n;
    for (int64_t i = m.sums_rows ? 0 : row; i < (m.sums_rows ? m.k : end); ++i)
      for (int64_t j = 0; j < m.n; ++j) {
        double sum = 0;
        for (int64_t p = m.sums_rows ? row : 0; p < (m.sums_rows ? end : m.k); ++p) {
          const int64_t at_a = m.sums_rows ? p * m.lda + i : i * m.lda + p;
          const int64_t at_b =
              m.sums_rows ? p * m.ldb + j : g * size + (m.b_transposed ? j * m.k + p : p * m.n + j);
          sum += value(a[static_cast<size_t>(at_a)]) * value(b[static_cast<size_t>(at_b)]);
        }
        double& out = (*c)[static_cast<size_t>(m.sums_rows ? g * size + i * m.n + j : i * m.ldc + j)];
        out = m.accumulate ? out + sum : sum;
      }
    row = end;
  }
}

/// The buffers hold one more row than exists; rows have a stride longer than their length, by a multiple of
/// `extra`.
OpCase grouped_case(const Load& load, GroupedMatmul m, DType a_type, DType b_type, DType c_type,
                    int64_t extra = 1) {
  m.groups = static_cast<int64_t>(load.rows.size()), m.rows = load.total() + 1;
  m.a_type = a_type, m.b_type = b_type, m.c_type = c_type;
  m.lda = m.k + 3 * extra, m.ldb = m.n + 2 * extra, m.ldc = m.n + extra;
  OpCase c = {"grouped_matmul",
              load.name + "/" + std::to_string(m.n) + "x" + std::to_string(m.k) +
                  (extra == 1 ? "" : "/aligned") + (m.sums_rows ? "/sums" : "") +
                  (m.b_transposed ? "/transposed" : "") + (m.accumulate ? "/added" : "") + "/" +
                  type_word(a_type) + type_word(b_type) + type_word(c_type),
              {},
              nullptr,
              nullptr};
  const int64_t of_groups = m.groups * m.n * m.k, rows_c = m.rows * m.ldc;
  const int64_t size_b = m.sums_rows ? m.rows * m.ldb : of_groups, size_c = m.sums_rows ? of_groups : rows_c;
  c.operands = {input("a", a_type, m.rows * m.lda, 1), input("b", b_type, size_b, 2),
                whole_numbers("offsets", load.offsets()),
                m.accumulate ? in_out("c", c_type, size_c, 3, 1.0, 1e-5) : output("c", c_type, size_c, 1e-5)};
  c.fast = [=](const FastCall& call) {
    GroupedMatmul args = m;
    args.c = call.data[3], args.a = call.data[0], args.b = call.data[1], args.offsets = call.as<int32_t>(2);
    args.workspace = call.workspace(call.table.grouped_matmul_workspace_bytes(args, call.stream.num_workers));
    call.table.grouped_matmul(args, call.stream);
  };
  c.reference = [=](RealOperands& x) { grouped_reference(m, load, x[0], x[1], &x[3]); };
  return c;
}

struct Gated {
  Activation kind;
  bool gated, weighted;
  int64_t rows, f;
};

std::string name_of(const Gated& p, DType type) {
  const char* kinds[] = {"gelu", "gelu_tanh", "silu", "clamped_silu"};
  return std::string(p.gated ? "gated_" : "") + kinds[static_cast<int>(p.kind)] + "/" +
         std::to_string(p.rows) + "x" + std::to_string(p.f) + (p.weighted ? "/weighted/" : "/plain/") +
         type_word(type);
}

std::vector<Gated> activations() {
  std::vector<Gated> all;
  using enum Activation;
  for (const Activation kind : {kGelu, kGeluTanh, kSilu, kClampedSilu})
    for (const bool gated : {false, true})
      for (const auto& [rows, f] : {std::pair<int64_t, int64_t>{1, 1}, {6, 37}, {21, 1100}})
        if (gated || kind != kClampedSilu) all.push_back({kind, gated, f != 1, rows, f});
  return all;
}

/// Returns the order of rows, which differs from the order of their weights. The last of p.rows rows does not
/// exist.
std::vector<double> order_of(const Gated& p) {
  std::vector<double> order;
  for (int64_t r = 0; r < p.rows; ++r) order.push_back(static_cast<double>((r + 2) % p.rows));
  return order;
}
int64_t end_of(const Gated& p) { return p.weighted ? p.rows - 1 : p.rows; }
double weight_of(const Gated& p, const std::vector<double>& weights, const std::vector<double>& order,
                 int64_t row) {
  return p.weighted ? weights[static_cast<size_t>(order[static_cast<size_t>(row)])] : 1.0;
}

template <class Args>
Args args_of(const Gated& p, DType type, const FastCall& call) {
  Args a;
  a.h = call.data[0];
  if (p.weighted) {
    a.weights = call.as<float>(1), a.order = call.as<int32_t>(2), a.end = call.as<int32_t>(3);
  }
  a.type = type;
  a.rows = p.rows, a.f = p.f;
  a.kind = p.kind, a.gated = p.gated;
  return a;
}

std::vector<Operand> operands_of(const Gated& p, DType type) {
  return {input("h", type, p.rows * p.f * (p.gated ? 2 : 1), 1, 3.0),
          input("weights", DType::kF32, p.rows, 2), whole_numbers("order", order_of(p)),
          whole_numbers("end", {static_cast<double>(end_of(p))})};
}

OpCase activation_forward_case(const Gated& p, DType type) {
  OpCase c = {"expert_activation_forward", name_of(p, type), operands_of(p, type), nullptr, nullptr};
  c.operands.push_back(output("y", type, p.rows * p.f, 2e-6));
  c.fast = [=](const FastCall& call) {
    auto a = args_of<ExpertActivationForward>(p, type, call);
    a.y = call.data[4];
    call.table.expert_activation_forward(a, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    kernels::activation_forward_reference<double>({nullptr, nullptr, type, end_of(p), p.f, p.kind, p.gated},
                                                  x[4].data(), x[0].data());
    for (int64_t i = 0; i < end_of(p) * p.f; ++i)
      x[4][static_cast<size_t>(i)] *= weight_of(p, x[1], x[2], i / p.f);
  };
  return c;
}

OpCase activation_backward_case(const Gated& p, DType type) {
  OpCase c = {"expert_activation_backward", name_of(p, type), operands_of(p, type), nullptr, nullptr};
  c.operands.push_back(in_out("dy", type, p.rows * p.f, 3, 1.0, 2e-6));  // y overwrites it
  c.operands.push_back(output("dh", type, p.rows * p.f * (p.gated ? 2 : 1), 2e-6));
  c.operands.push_back(output("dweights", DType::kF32, p.rows, 1e-5));
  c.fast = [=](const FastCall& call) {
    auto a = args_of<ExpertActivationBackward>(p, type, call);
    a.dy = a.y = call.data[4], a.dh = call.data[5], a.dweights = call.as<float>(6);
    call.table.expert_activation_backward(a, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    std::vector<double> dy = x[4], y(dy.size());
    kernels::activation_forward_reference<double>({nullptr, nullptr, type, p.rows, p.f, p.kind, p.gated},
                                                  y.data(), x[0].data());
    for (int64_t r = 0; r < end_of(p); ++r) {
      double sum = 0;
      const double weight = weight_of(p, x[1], x[2], r);
      for (auto i = static_cast<size_t>(r * p.f); i < static_cast<size_t>((r + 1) * p.f); ++i) {
        sum += dy[i] * y[i];
        dy[i] *= weight;
        x[4][i] = weight * y[i];
      }
      x[6][static_cast<size_t>(p.weighted ? x[2][static_cast<size_t>(r)] : static_cast<double>(r))] = sum;
    }
    kernels::activation_backward_reference<double>(
        {nullptr, nullptr, nullptr, type, end_of(p), p.f, p.kind, p.gated}, x[5].data(), dy.data(),
        x[0].data());
  };
  return c;
}

/// The derivative of the weighted activation with respect to h and the weights.
GradientCase activation_gradient(const Gated& p) {
  const int64_t width = p.f * (p.gated ? 2 : 1);
  GradientCase c = {"expert_activation_backward", name_of(p, DType::kF64), {}, nullptr, nullptr};
  c.inputs = {random_values(p.rows * width, 1, 2.0), random_values(p.rows, 2)};
  c.forward = [=](const ComplexOperands& in) {
    std::vector<Complex> y(static_cast<size_t>(p.rows * p.f));
    kernels::activation_forward_reference({nullptr, nullptr, DType::kF64, p.rows, p.f, p.kind, p.gated},
                                          y.data(), in[0].data());
    for (size_t i = 0; i < y.size(); ++i) y[i] *= in[1][i / static_cast<size_t>(p.f)];
    return ComplexOperands{y};
  };
  c.backward = [=](const RealOperands& in, const RealOperands& dout) {
    std::vector<double> y(dout[0].size()), dy = dout[0], dh(in[0].size()), dweights(in[1].size());
    kernels::activation_forward_reference({nullptr, nullptr, DType::kF64, p.rows, p.f, p.kind, p.gated},
                                          y.data(), in[0].data());
    for (size_t i = 0; i < y.size(); ++i) {
      dweights[i / static_cast<size_t>(p.f)] += dy[i] * y[i];
      dy[i] *= in[1][i / static_cast<size_t>(p.f)];
    }
    kernels::activation_backward_reference(
        {nullptr, nullptr, nullptr, DType::kF64, p.rows, p.f, p.kind, p.gated}, dh.data(), dy.data(),
        in[0].data());
    return RealOperands{dh, dweights};
  };
  return c;
}

}  // namespace op_cases_experts

void add_expert_gradients(std::vector<GradientCase>& cases) {
  using namespace op_cases_experts;
  for (const Gated& p : activations())
    if (p.f == 37) cases.push_back(activation_gradient(p));
}

void add_expert_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_experts;
  for (const auto& [rows, top_k, experts] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {9, 2, 6}, {700, 3, 8}, {5, 2, 40}}) {
    cases.push_back(group_case(rows, top_k, experts, 0));
    cases.push_back(group_case(rows, top_k, experts, 2));
    for (const int64_t d : {1, 37, 256}) {
      cases.push_back(gather_case(rows, top_k, d, DType::kF32));
      cases.push_back(gather_case(rows, top_k, d, DType::kBf16));
      cases.push_back(gather_case(rows, top_k, d, DType::kF16));
      cases.push_back(gather_case(rows, top_k, d, DType::kF32, true));
      cases.push_back(combine_case(rows, top_k, d, d == 37, DType::kF32));
      for (const DType type : {DType::kBf16, DType::kF16})
        cases.push_back(combine_case(rows, top_k, d, d == 256, type));
    }
  }
  for (const Load& load : loads()) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {37, 19}, {64, 130}}) {
      for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
        cases.push_back(grouped_case(load, {.n = n, .k = k, .b_transposed = true}, type, type, type));
        cases.push_back(grouped_case(load, {.n = n, .k = k, .accumulate = true}, type, type, DType::kF32));
        cases.push_back(
            grouped_case(load, {.n = n, .k = k, .sums_rows = true}, DType::kF32, type, DType::kF32));
        cases.push_back(grouped_case(load, {.n = n, .k = k, .sums_rows = true, .accumulate = true}, type,
                                     type, DType::kF32));
      }
    }
    const GroupedMatmul aligned = {.n = 200, .k = 144};  // strides in whole vectors, and more than one tile
    const auto with = [&aligned](bool transposed, bool sums_rows, bool accumulate) {
      GroupedMatmul m = aligned;
      m.b_transposed = transposed, m.sums_rows = sums_rows, m.accumulate = accumulate;
      return m;
    };
    constexpr DType kBf16 = DType::kBf16, kF32 = DType::kF32;
    cases.push_back(grouped_case(load, with(true, false, false), kBf16, kBf16, kBf16, 8));
    cases.push_back(grouped_case(load, with(false, false, true), kF32, kBf16, kF32, 8));
    cases.push_back(grouped_case(load, with(false, true, false), kBf16, kBf16, kBf16, 8));
    cases.push_back(grouped_case(load, with(false, true, true), kBf16, kF32, kF32, 8));
  }
  for (const Gated& p : activations()) {
    for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
      cases.push_back(activation_forward_case(p, type));
      cases.push_back(activation_backward_case(p, type));
    }
  }
}

}  // namespace hawser::testing
