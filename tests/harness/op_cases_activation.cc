// Rows of the op-case table for the activations.
#include "kernels/cpu/activation_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_activation {

using kernels::Activation;
using kernels::activation_backward_reference;
using kernels::activation_forward_reference;
using kernels::ActivationBackward;
using kernels::ActivationForward;

struct Problem {
  Activation kind;
  bool gated;
  int64_t rows, f;
};

std::string name_of(const Problem& p) {
  const char* kinds[] = {"gelu", "gelu_tanh", "silu", "clamped_silu"};
  return std::string(p.gated ? "gated_" : "") + kinds[static_cast<int>(p.kind)] + "/" +
         std::to_string(p.rows) + "x" + std::to_string(p.f);
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (const Activation kind :
       {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu, Activation::kClampedSilu}) {
    for (const bool gated : {false, true}) {
      if (kind == Activation::kClampedSilu && !gated) continue;
      for (const auto& [rows, f] : {std::pair<int64_t, int64_t>{1, 1}, {3, 37}, {9, 64}, {70, 333}}) {
        all.push_back({kind, gated, rows, f});
      }
    }
  }
  return all;
}

OpCase forward_case(const Problem& p, DType type) {
  const int64_t width = p.gated ? 2 * p.f : p.f;
  OpCase c = {"activation_forward", name_of(p) + "/" + type_word(type), {}, nullptr, nullptr};
  c.operands = {input("h", type, p.rows * width, 1, 3.0), output("y", type, p.rows * p.f, 1e-6)};
  c.fast = [=](const FastCall& call) {
    call.table.activation_forward({call.data[1], call.data[0], type, p.rows, p.f, p.kind, p.gated},
                                  call.stream);
  };
  c.reference = [=](RealOperands& x) {
    activation_forward_reference({nullptr, nullptr, type, p.rows, p.f, p.kind, p.gated}, x[1].data(),
                                 x[0].data());
  };
  return c;
}

/// in_place: dh is h, and y is dy.
OpCase backward_case(const Problem& p, DType type, bool in_place) {
  const int64_t width = p.gated ? 2 * p.f : p.f;
  const size_t y = in_place ? 0 : 2, dh = in_place ? 1 : 3;
  OpCase c = {"activation_backward",
              name_of(p) + "/" + type_word(type) + (in_place ? "/in_place" : ""),
              {},
              nullptr,
              nullptr};
  if (in_place) {
    c.operands = {in_out("dy", type, p.rows * p.f, 2, 1.0, 1e-6),
                  in_out("h", type, p.rows * width, 1, 3.0, 1e-6)};
  } else {
    c.operands = {input("dy", type, p.rows * p.f, 2), input("h", type, p.rows * width, 1, 3.0),
                  output("y", type, p.rows * p.f, 1e-6), output("dh", type, p.rows * width, 1e-6)};
  }
  c.fast = [=](const FastCall& call) {
    call.table.activation_backward(
        {call.data[dh], call.data[0], call.data[1], type, p.rows, p.f, p.kind, p.gated, call.data[y]},
        call.stream);
  };
  c.reference = [=](RealOperands& x) {
    const std::vector<double> dy = x[0], h = x[1];  // y and dh may be these arrays
    activation_backward_reference({nullptr, nullptr, nullptr, type, p.rows, p.f, p.kind, p.gated},
                                  x[dh].data(), dy.data(), h.data(), x[y].data());
  };
  return c;
}

GradientCase gradient_case(const Problem& p) {
  GradientCase c = {"activation_backward", name_of(p), {}, nullptr, nullptr};
  // Many elements of a clamped activation are beyond its limits.
  c.inputs = {
      random_values(p.rows * p.f * (p.gated ? 2 : 1), 3, p.kind == Activation::kClampedSilu ? 6.0 : 2.0)};
  c.forward = [=](const ComplexOperands& in) {
    std::vector<Complex> y(static_cast<size_t>(p.rows * p.f));
    activation_forward_reference({nullptr, nullptr, DType::kF64, p.rows, p.f, p.kind, p.gated}, y.data(),
                                 in[0].data());
    return ComplexOperands{y};
  };
  c.backward = [=](const RealOperands& in, const RealOperands& dout) {
    std::vector<double> dh(in[0].size());
    activation_backward_reference({nullptr, nullptr, nullptr, DType::kF64, p.rows, p.f, p.kind, p.gated},
                                  dh.data(), dout[0].data(), in[0].data());
    return RealOperands{dh};
  };
  return c;
}

}  // namespace op_cases_activation

void add_activation_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_activation;
  for (const Problem& p : problems()) {
    for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
      cases.push_back(forward_case(p, type));
      cases.push_back(backward_case(p, type, false));
      cases.push_back(backward_case(p, type, true));
    }
  }
}

void add_activation_gradients(std::vector<GradientCase>& cases) {
  using namespace op_cases_activation;
  for (Problem p : problems()) {
    if (p.f != 37) continue;
    cases.push_back(gradient_case(p));
  }
}

}  // namespace hawser::testing
