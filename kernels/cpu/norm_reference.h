// Reference for LayerNorm and RMSNorm: the formulas of their papers, over the number type T (double,
// std::complex<double>). Strides (in elements of T) are read from the arguments; their pointers and types are
// not.
#pragma once

#include <vector>

#include "kernels/cpu/reference_number.h"
#include "kernels/include/norm.h"

namespace hawser::kernels {

/// If mean is null, computes RMSNorm. bias may be null.
template <class T>
void norm_forward_reference(const NormForward& a, T* y, T* mean, T* rstd, const T* x, const T* weight,
                            const T* bias) {
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t g = 0; g < a.groups; ++g) {
      const T* xg = x + r * a.x_stride + g * a.d;
      T* yg = y + r * a.y_stride + g * a.d;
      T mu = T(0), var = T(0);
      for (int64_t j = 0; j < a.d && mean != nullptr; ++j) mu += xg[j] / static_cast<double>(a.d);
      for (int64_t j = 0; j < a.d; ++j) var += (xg[j] - mu) * (xg[j] - mu) / static_cast<double>(a.d);
      const T inv = T(1) / std::sqrt(var + static_cast<double>(a.eps));
      for (int64_t j = 0; j < a.d; ++j) {
        const T scaled = (xg[j] - mu) * inv * (static_cast<double>(a.weight_offset) + weight[j]);
        yg[j] = bias != nullptr ? scaled + bias[j] : scaled;
      }
      if (mean != nullptr) mean[r * a.groups + g] = mu;
      rstd[r * a.groups + g] = inv;
    }
  }
}

/// With xhat = (x - mean) * rstd and dxhat = dy * (weight_offset + weight):
/// dx = rstd * (dxhat - [LayerNorm: avg(dxhat)] - xhat * avg(dxhat * xhat)).
/// The arguments specify whether dx, dweight and dbias accumulate. dbias, y and bias may be null.
template <class T>
void norm_backward_reference(const NormBackward& a, T* dx, T* dweight, T* dbias, const T* dy, const T* x,
                             const T* weight, const T* mean, const T* rstd, T* y = nullptr,
                             const T* bias = nullptr) {
  const double n = static_cast<double>(a.d);
  for (int64_t j = 0; j < a.d && !a.weights_accumulate; ++j) {
    dweight[j] = T(0);
    if (dbias != nullptr) dbias[j] = T(0);
  }
  std::vector<T> xhat(static_cast<size_t>(a.d)), dxhat(static_cast<size_t>(a.d));
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t g = 0; g < a.groups; ++g) {
      const T* dyg = dy + r * a.dy_stride + g * a.d;
      const T* xg = x + r * a.x_stride + g * a.d;
      T* dxg = dx + r * a.dx_stride + g * a.d;
      const T mu = mean != nullptr ? mean[r * a.groups + g] : T(0), inv = rstd[r * a.groups + g];
      T sum = T(0), dot = T(0);
      for (int64_t j = 0; j < a.d; ++j) {
        xhat[j] = (xg[j] - mu) * inv;
        const T scale = static_cast<double>(a.weight_offset) + weight[j];
        dxhat[j] = dyg[j] * scale;
        if (y != nullptr)
          y[r * a.y_stride + g * a.d + j] = xhat[j] * scale + (bias != nullptr ? bias[j] : T(0));
        dweight[j] += dyg[j] * xhat[j];
        if (dbias != nullptr) dbias[j] += dyg[j];
        if (mean != nullptr) sum += dxhat[j] / n;
        dot += dxhat[j] * xhat[j] / n;
      }
      for (int64_t j = 0; j < a.d; ++j) {
        const T grad = inv * (dxhat[j] - sum - xhat[j] * dot);
        dxg[j] = a.dx_accumulate ? dxg[j] + grad : grad;
      }
    }
  }
}

}  // namespace hawser::kernels
