// The optimizers as their papers write them, over the number type T, one element.
#pragma once

#include "kernels/cpu/reference_number.h"
#include "kernels/include/optimizer.h"

namespace hawser::kernels {

template <class T>
void adamw_reference(const AdamW& a, const OptimizerScalars& s, T& w, T& m, T& v, T grad) {
  const double beta1 = a.beta1, beta2 = a.beta2;
  const T g = grad * static_cast<double>(s.grad_scale);
  m = beta1 * m + (1.0 - beta1) * g;
  v = beta2 * v + (1.0 - beta2) * g * g;
  const T step = (m / static_cast<double>(s.bias_correction1)) /
                 (std::sqrt(v / static_cast<double>(s.bias_correction2)) + static_cast<double>(a.eps));
  w = w - static_cast<double>(s.lr) * static_cast<double>(a.weight_decay) * w -
      static_cast<double>(s.lr) * step;
}

template <class T>
void sgd_reference(const Sgd& a, const OptimizerScalars& s, T& w, T& buf, T grad) {
  const double momentum = a.momentum;
  const T g = grad * static_cast<double>(s.grad_scale) + static_cast<double>(a.weight_decay) * w;
  buf = momentum * buf + g;
  w = w - static_cast<double>(s.lr) * (a.nesterov ? g + momentum * buf : buf);
}

}  // namespace hawser::kernels
