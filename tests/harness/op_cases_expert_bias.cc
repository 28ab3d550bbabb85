// Rows of the op-case table for biases of experts.
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_expert_bias {

using kernels::GroupedRows;

/// Groups of several sizes: some empty, one with more rows than are summed at once.
const std::vector<double> kOffsets = {0, 0, 3, 133, 133, 300};

GroupedRows grouped(int64_t n, int64_t gap, DType type) {
  GroupedRows s;
  s.groups = std::ssize(kOffsets) - 1, s.rows = static_cast<int64_t>(kOffsets.back()) + 2;
  s.n = n, s.stride = n + gap, s.type = type;
  return s;
}

std::string name_of(const GroupedRows& s) {
  return std::to_string(s.n) + "_" + std::to_string(s.stride) + "/" + type_word(s.type);
}

/// Calls use(group, element of the array, column) for all rows of all groups.
template <class Use>
void each_element(const GroupedRows& s, const std::vector<double>& offsets, const Use& use) {
  for (int64_t g = 0; g < s.groups; ++g)
    for (auto r = static_cast<int64_t>(offsets[static_cast<size_t>(g)]);
         r < static_cast<int64_t>(offsets[static_cast<size_t>(g) + 1]); ++r)
      for (int64_t j = 0; j < s.n; ++j) use(g, static_cast<size_t>(r * s.stride + j), j);
}

OpCase bias_case(const GroupedRows& s) {
  OpCase c = {"expert_bias", name_of(s), {}, nullptr, nullptr};
  c.cpu_only = true;
  c.operands = {whole_numbers("offsets", kOffsets), input("bias", DType::kF32, s.groups * s.n, 1),
                in_out("y", s.type, s.rows * s.stride, 2, 1.0, 1e-6)};
  c.fast = [=](const FastCall& call) {
    kernels::ExpertBias b{s, call.data[2], call.as<float>(1)};
    b.s.offsets = call.as<int32_t>(0);
    call.table.expert_bias(b, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    each_element(s, x[0], [&](int64_t g, size_t at, int64_t j) {
      x[2][at] += x[1][static_cast<size_t>(g * s.n + j)];
    });
  };
  return c;
}

/// The groups are the second and later ones of `total`.
OpCase sum_case(const GroupedRows& s, bool accumulate) {
  constexpr int64_t kFirst = 1;
  const int64_t total = s.groups + 3;
  OpCase c = {"expert_bias_sum", name_of(s) + (accumulate ? "/added" : ""), {}, nullptr, nullptr};
  c.cpu_only = true;
  c.operands = {
      whole_numbers("offsets", kOffsets), input("dy", s.type, s.rows * s.stride, 1),
      accumulate ? in_out("dbias", DType::kF32, total * s.n, 2) : output("dbias", DType::kF32, total * s.n)};
  c.fast = [=](const FastCall& call) {
    kernels::ExpertBiasSum b{s, call.as<float>(2), call.data[1], kFirst, total, accumulate};
    b.s.offsets = call.as<int32_t>(0);
    call.table.expert_bias_sum(b, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    if (!accumulate) x[2].assign(x[2].size(), 0.0);
    each_element(s, x[0], [&](int64_t g, size_t at, int64_t j) {
      x[2][static_cast<size_t>((kFirst + g) * s.n + j)] += x[1][at];
    });
  };
  return c;
}

constexpr int64_t kRows = 300, kTopK = 3, kExperts = 7;

/// Each row chooses three different experts; some choices were dropped.
std::vector<double> choices() {
  std::vector<double> all;
  for (int64_t c = 0; c < kRows * kTopK; ++c)
    all.push_back(static_cast<double>((c / kTopK + 2 * (c % kTopK)) % kExperts));
  return all;
}
std::vector<double> places() {
  std::vector<double> all;
  for (int64_t c = 0; c < kRows * kTopK; ++c) all.push_back(c % 5 == 4 ? -1.0 : static_cast<double>(c));
  return all;
}
kernels::ChosenExperts chosen(const FastCall& call) {
  return {call.as<int32_t>(0), call.as<int32_t>(1), kRows, kTopK, kExperts};
}

/// Calls use(choice, element of the matrix) for the choices that were not dropped.
template <class Use>
void each_choice(const RealOperands& x, const Use& use) {
  for (size_t c = 0; c < x[0].size(); ++c)
    if (x[1][c] >= 0) use(c, c / kTopK * kExperts + static_cast<size_t>(x[0][c]));
}

OpCase spread_case() {
  OpCase c = {"spread_weights", "rows", {}, nullptr, nullptr};
  c.cpu_only = true;
  c.operands = {whole_numbers("choice", choices()), whole_numbers("place", places()),
                input("weights", DType::kF32, kRows * kTopK, 1),
                output("y", DType::kF32, kRows * kExperts, 0)};
  c.fast = [](const FastCall& call) {
    call.table.spread_weights({chosen(call), call.as<float>(3), call.as<float>(2)}, call.stream);
  };
  c.reference = [](RealOperands& x) {
    x[3].assign(x[3].size(), 0.0);
    each_choice(x, [&](size_t choice, size_t at) { x[3][at] = x[2][choice]; });
  };
  return c;
}

OpCase add_case() {
  OpCase c = {"add_chosen", "rows", {}, nullptr, nullptr};
  c.cpu_only = true;
  c.operands = {whole_numbers("choice", choices()), whole_numbers("place", places()),
                input("x", DType::kF32, kRows * kExperts, 1), in_out("y", DType::kF32, kRows * kTopK, 2)};
  c.fast = [](const FastCall& call) {
    call.table.add_chosen({chosen(call), call.as<float>(3), call.as<float>(2)}, call.stream);
  };
  c.reference = [](RealOperands& x) {
    each_choice(x, [&](size_t choice, size_t at) { x[3][choice] += x[2][at]; });
  };
  return c;
}

}  // namespace op_cases_expert_bias

void add_expert_bias_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_expert_bias;
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16})
    for (const auto& [n, gap] : {std::pair<int64_t, int64_t>{1, 0}, {37, 37}, {300, 4}}) {
      const GroupedRows s = grouped(n, gap, type);
      cases.push_back(bias_case(s));
      cases.push_back(sum_case(s, false));
      cases.push_back(sum_case(s, true));
    }
  cases.push_back(spread_case());
  cases.push_back(add_case());
}

}  // namespace hawser::testing
