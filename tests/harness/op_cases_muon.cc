// Rows of the op-case table for the element-wise parts of Muon.
#include "kernels/cpu/optimizer_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_muon {

using kernels::Axpby;
using kernels::MuonMomentum;
using kernels::MuonUpdate;

constexpr kernels::OptimizerScalars kScalars = {.lr = 0.01f, .grad_scale = 0.5f};

OpCase momentum_case(int64_t n) {
  MuonMomentum a;
  a.scalars = &kScalars;
  a.n = n;
  a.momentum = 0.9f;
  OpCase c = {"muon_momentum", std::to_string(n), {}, nullptr, nullptr};
  c.operands = {in_out("m", DType::kF32, n, 1, 0.1, 1e-6), output("u", DType::kF32, n, 1e-6),
                input("grad", DType::kF32, n, 2)};
  c.fast = [=](const FastCall& call) {
    MuonMomentum args = a;
    args.m = call.as<float>(0), args.u = call.as<float>(1), args.grad = call.as<float>(2);
    call.table.muon_momentum(args, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (size_t i = 0; i < x[0].size(); ++i) muon_momentum_reference(a, kScalars, x[0][i], x[1][i], x[2][i]);
  };
  return c;
}

OpCase axpby_case(int64_t n, DType type, bool adds) {
  const float alpha = 2.0315f, beta = -4.775f;
  OpCase c = {
      "axpby", std::to_string(n) + "_" + type_word(type) + (adds ? "_adds" : ""), {}, nullptr, nullptr};
  const double tolerance = type == DType::kF32 ? 1e-6 : 1.0 / 128;
  c.operands = {input("x", DType::kF32, n, 1), in_out("y", type, n, 2, 1.0, tolerance)};
  c.fast = [=](const FastCall& call) {
    call.table.axpby({call.data[1], call.as<float>(0), adds ? call.data[1] : nullptr, type, n, alpha, beta},
                     call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (size_t i = 0; i < x[0].size(); ++i)
      x[1][i] = static_cast<double>(alpha) * x[0][i] + (adds ? static_cast<double>(beta) * x[1][i] : 0.0);
  };
  return c;
}

OpCase update_case(int64_t n, bool copy, DType copy_type = DType::kBf16) {
  MuonUpdate a;
  a.scalars = &kScalars;
  a.n = n;
  a.scale = 1.6f, a.weight_decay = 0.1f, a.rate = 0.5f;
  a.copy_type = copy_type;
  OpCase c = {
      "muon_update", std::to_string(n) + (copy ? "_copy_" + type_word(copy_type) : ""), {}, nullptr, nullptr};
  c.operands = {in_out("weight", DType::kF32, n, 1, 1.0, 1e-6), input("direction", DType::kF32, n, 2),
                output("copy", copy_type, n, 1e-6)};
  c.fast = [=](const FastCall& call) {
    MuonUpdate args = a;
    args.weight = call.as<float>(0), args.direction = call.as<float>(1);
    args.copy = copy ? call.data[2] : nullptr;
    call.table.muon_update(args, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (size_t i = 0; i < x[0].size(); ++i) {
      muon_update_reference(a, kScalars, x[0][i], x[1][i]);
      if (copy) x[2][i] = x[0][i];
    }
  };
  return c;
}

}  // namespace op_cases_muon

void add_muon_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_muon;
  for (const int64_t n : {1, 4095, 20001}) {
    cases.push_back(momentum_case(n));
    for (const bool adds : {false, true}) {
      cases.push_back(axpby_case(n, DType::kF32, adds));
      cases.push_back(axpby_case(n, DType::kBf16, adds));
    }
    cases.push_back(update_case(n, false));
    cases.push_back(update_case(n, true));
    cases.push_back(update_case(n, true, DType::kF16));
  }
}

}  // namespace hawser::testing
