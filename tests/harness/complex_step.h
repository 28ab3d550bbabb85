// Derivatives by complex step (Squire and Trapp 1998): the imaginary part of f(x + ih) over h is f'(x). This
// subtracts nothing, so h can be tiny, and the result is exact to the last digits.
#pragma once

#include <cmath>
#include <complex>
#include <functional>
#include <vector>

namespace hawser::testing {

using Complex = std::complex<double>;
using RealOperands = std::vector<std::vector<double>>;
using ComplexOperands = std::vector<std::vector<Complex>>;

inline constexpr double kComplexStep = 1e-30;

/// Returns the gradient of the sum over outputs of dout * f(in), at `in`, by each input element in turn.
inline RealOperands complex_step_gradient(const std::function<ComplexOperands(const ComplexOperands&)>& f,
                                          const RealOperands& in, const RealOperands& dout) {
  ComplexOperands x;
  for (const auto& operand : in) x.emplace_back(operand.begin(), operand.end());
  RealOperands gradient;
  for (auto& operand : x) {
    std::vector<double>& slot = gradient.emplace_back(operand.size());
    for (size_t i = 0; i < operand.size(); ++i) {
      const Complex saved = operand[i];
      operand[i] += Complex(0, kComplexStep);
      const ComplexOperands out = f(x);
      double sum = 0;
      for (size_t o = 0; o < out.size(); ++o) {
        for (size_t j = 0; j < out[o].size(); ++j) sum += dout[o][j] * out[o][j].imag();
      }
      slot[i] = sum / kComplexStep;
      operand[i] = saved;
    }
  }
  return gradient;
}

/// Returns ||a - b|| / ||b||, or ||a|| if b is zero.
inline double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

}  // namespace hawser::testing
