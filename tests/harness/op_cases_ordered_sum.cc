// Rows of the op-case table for the ordered sum over members.
#include "kernels/cpu/ordered_sum_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace {

using kernels::OrderedSum;

/// The inputs of members are first, `out` is last. Rounded results are exact only if f32 and fp64 sums round
/// alike, so rows that round use numbers of few bits, whose sums are exact.
OpCase ordered_sum_case(OrderedSum a, std::string name) {
  OpCase c = {"ordered_sum",
              std::to_string(a.members) + "x" + std::to_string(a.n) + "/" + std::move(name),
              {},
              nullptr,
              nullptr};
  for (int32_t m = 0; m < a.members; ++m) {
    c.operands.push_back(input("in" + std::to_string(m), a.in_type, a.n, static_cast<uint32_t>(m) + 1));
    if (a.round_to == DType::kF32) continue;
    for (double& x : c.operands.back().value) x = rounded(static_cast<int64_t>(x * 64) / 64.0, a.in_type);
  }
  c.operands.push_back(a.accumulate ? in_out("out", DType::kF32, a.n, 99) : output("out", DType::kF32, a.n));
  c.fast = [=](const FastCall& call) {
    OrderedSum args = a;
    const std::vector<const void*> in(call.data.begin(), call.data.end() - 1);
    args.in = in.data();
    args.out = static_cast<float*>(call.data.back());
    call.table.ordered_sum(args, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    for (int64_t i = 0; i < a.n; ++i) {
      double& out = v.back()[static_cast<size_t>(i)];
      out = ordered_sum_reference<double>(
          a, out,
          [&](int32_t m) { return rounded(v[static_cast<size_t>(m)][static_cast<size_t>(i)], a.round_in); },
          [](double x, DType type) { return type == DType::kF32 ? x : rounded(x, type); });
    }
  };
  return c;
}

}  // namespace

void add_ordered_sum_cases(std::vector<OpCase>& cases) {
  for (const int64_t n : {1, 7, 64, 1003}) {
    cases.push_back(ordered_sum_case({.members = 1, .n = n}, "copy"));
    cases.push_back(ordered_sum_case({.members = 3, .accumulate = true, .n = n}, "accumulate"));
    cases.push_back(ordered_sum_case({.members = 6, .sum_group = 2, .n = n}, "groups_of_2"));
    cases.push_back(ordered_sum_case({.members = 8, .tree = true, .n = n}, "tree"));
  }
  for (const DType type : {DType::kBf16, DType::kF16}) {
    const std::string word = dtype_name(type);
    cases.push_back(ordered_sum_case({.in_type = type, .members = 5, .n = 131}, "in_" + word));
    cases.push_back(ordered_sum_case({.round_in = type, .members = 4, .n = 131}, "rounded_in_" + word));
    cases.push_back(ordered_sum_case({.round_in = type, .round_to = type, .members = 4, .n = 131},
                                     "rounded_both_" + word));
  }
}

}  // namespace hawser::testing
