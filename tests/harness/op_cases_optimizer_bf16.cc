// Rows of the op-case table for optimizer steps on bf16 state. The random words equal the reference's, but if
// the last bit of an fp32 result decides, the fast path and fp64 may round to different neighbours. One unit
// in the last place is therefore allowed (optimizer_bf16_test.cc compares bits).
#include "kernels/cpu/optimizer_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_optimizer_bf16 {

using kernels::AdamWBf16;
using kernels::LionBf16;
using kernels::OptimizerScalars;
using kernels::RoundingUse;
using kernels::SgdBf16;

constexpr OptimizerScalars kScalars = {
    .lr = 0.01f, .grad_scale = 0.5f, .bias_correction1 = 0.271f, .bias_correction2 = 0.0029955f, .step = 3};
constexpr double kUlp = 1.0 / 128;
constexpr int64_t kCutElements = 3001, kCutWidth = 77;  // a part of a matrix whose columns are divided

template <class Args>
Args rounded_at(int64_t n, int64_t first) {
  Args a;
  a.scalars = &kScalars;
  a.n = n;
  a.weight_decay = 0.1f;
  a.run = {0x0123456789abcdefull, first};
  if (n == kCutElements) a.run.width = kCutWidth, a.run.stride = 1000, a.run.column = 5;
  return a;
}

Operand state(const char* name, int64_t n, uint32_t seed, double spread) {
  return in_out(name, DType::kBf16, n, seed, spread, kUlp);
}

/// Rounds each of `values` for this use.
template <class Args>
void round_all(const Args& a, std::vector<double>& values, RoundingUse use) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = kernels::round_stochastically_reference(values[i], a.run, kScalars.step,
                                                        static_cast<int64_t>(i), use);
}

OpCase adamw_case(int64_t n, int64_t first) {
  const auto a = rounded_at<AdamWBf16>(n, first);
  OpCase c = {"adamw_bf16", std::to_string(n) + "_from_" + std::to_string(first), {}, nullptr, nullptr};
  c.operands = {state("weight", n, 1, 1.0), state("m", n, 2, 0.1), state("v", n, 3, 0.1),
                input("grad", DType::kBf16, n, 4)};
  for (double& v : c.operands[2].value) v = std::abs(v);
  c.fast = [=](const FastCall& call) {
    AdamWBf16 args = a;
    args.weight = call.data[0], args.m = call.data[1], args.v = call.data[2], args.grad = call.data[3];
    call.table.adamw_bf16(args, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (size_t i = 0; i < x[0].size(); ++i) adamw_reference(a, kScalars, x[0][i], x[1][i], x[2][i], x[3][i]);
    round_all(a, x[0], RoundingUse::kWeight);
    round_all(a, x[1], RoundingUse::kMoment1);
    round_all(a, x[2], RoundingUse::kMoment2);
  };
  return c;
}

OpCase sgd_case(int64_t n, int64_t first, float momentum, bool nesterov) {
  auto a = rounded_at<SgdBf16>(n, first);
  a.momentum = momentum;
  a.nesterov = nesterov;
  OpCase c = {"sgd_bf16",
              std::to_string(n) + "_from_" + std::to_string(first) + (momentum > 0 ? "_momentum" : "") +
                  (nesterov ? "_nesterov" : ""),
              {},
              nullptr,
              nullptr};
  c.operands = {state("weight", n, 1, 1.0),
                momentum > 0 ? state("buf", n, 2, 1.0) : output("buf", DType::kBf16, n),
                input("grad", DType::kBf16, n, 4)};
  c.fast = [=](const FastCall& call) {
    SgdBf16 args = a;
    args.weight = call.data[0], args.grad = call.data[2];
    args.buf = momentum > 0 ? call.data[1] : nullptr;
    call.table.sgd_bf16(args, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (size_t i = 0; i < x[0].size(); ++i) {
      double none = 0;
      sgd_reference(a, kScalars, x[0][i], momentum > 0 ? x[1][i] : none, x[2][i]);
    }
    round_all(a, x[0], RoundingUse::kWeight);
    if (momentum > 0) round_all(a, x[1], RoundingUse::kMoment1);
  };
  return c;
}

OpCase lion_case(int64_t n, int64_t first) {
  const auto a = rounded_at<LionBf16>(n, first);
  OpCase c = {"lion_bf16", std::to_string(n) + "_from_" + std::to_string(first), {}, nullptr, nullptr};
  c.operands = {state("weight", n, 1, 1.0), state("m", n, 2, 0.1), input("grad", DType::kBf16, n, 4)};
  c.fast = [=](const FastCall& call) {
    LionBf16 args = a;
    args.weight = call.data[0], args.m = call.data[1], args.grad = call.data[2];
    call.table.lion_bf16(args, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (size_t i = 0; i < x[0].size(); ++i) lion_reference(a, kScalars, x[0][i], x[1][i], x[2][i]);
    round_all(a, x[0], RoundingUse::kWeight);
    round_all(a, x[1], RoundingUse::kMoment1);
  };
  return c;
}

}  // namespace op_cases_optimizer_bf16

void add_optimizer_bf16_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_optimizer_bf16;
  for (const auto& [n, first] :
       {std::pair<int64_t, int64_t>{1, 0}, {63, 2}, {4096, 1}, {20001, 1ll << 33}, {kCutElements, 305}}) {
    cases.push_back(adamw_case(n, first));
    cases.push_back(lion_case(n, first));
    cases.push_back(sgd_case(n, first, 0.0f, false));
    cases.push_back(sgd_case(n, first, 0.9f, first % 2 == 1));
  }
}

}  // namespace hawser::testing
