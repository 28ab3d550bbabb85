// Magnitudes of an adapter's rows as the paper writes them (DoRA, Liu et al., arXiv:2402.09353), for
// reference_model.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace hawser::train {

/// Returns |W + s B A| of each row. `shape` is the shape of A. The gradient treats norms as constants, so
/// they come from weights without perturbation.
inline std::vector<double> row_norms(const double* w, const double* a, const double* b, double scale,
                                     int64_t out, const std::vector<int64_t>& shape) {
  const int64_t rank = shape[0], in = shape[1];
  std::vector<double> norms;
  for (int64_t o = 0; o < out; ++o) {
    double square = 0;
    for (int64_t i = 0; i < in; ++i) {
      double v = w[o * in + i];
      for (int64_t r = 0; r < rank; ++r) v += scale * b[o * rank + r] * a[r * in + i];
      square += v * v;
    }
    norms.push_back(std::sqrt(square));
  }
  return norms;
}

/// Computes y = m / norm (y - bias) + bias. `bias` may be null.
template <class T>
void scale_rows(std::vector<std::vector<T>>& y, const T* m, const T* bias, const std::vector<double>& norms) {
  for (size_t o = 0; o < norms.size(); ++o) {
    const T factor = m[o] / norms[o], constant = bias != nullptr ? bias[o] : T(0);
    for (auto& row : y) row[o] = factor * (row[o] - constant) + constant;
  }
}

}  // namespace hawser::train
