// Functions that the scalar references need for their number type T, in addition to arithmetic. References
// run in double, to test the fast paths, and in std::complex<double>, whose tiny imaginary part gives an
// exact derivative with the same code (complex step). Comparisons use the real part. Functions that <complex>
// lacks are defined here.
#pragma once

#include <cmath>
#include <complex>

namespace hawser::kernels {

inline double real_part(double x) { return x; }
inline double real_part(const std::complex<double>& x) { return x.real(); }

inline double reference_erf(double x) { return std::erf(x); }

/// erf(x + ih) to first order in h: exact to the last bit for the steps that complex step takes (h ~ 1e-30).
inline std::complex<double> reference_erf(const std::complex<double>& x) {
  constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
  return {std::erf(x.real()), kTwoOverSqrtPi * std::exp(-x.real() * x.real()) * x.imag()};
}

}  // namespace hawser::kernels
