// The activations of MLPs as formulas, for the reference model. T is the number type of reference_model.h.
#pragma once

#include <cmath>

#include "engine/nn/model_config.h"
#include "kernels/cpu/reference_number.h"

namespace hawser::train {

template <typename T>
T reference_clamp(const T& x, double least, double most) {
  using kernels::real_part;  // or the function in the number's own namespace
  const double value = real_part(x);
  return value < least ? T(least) : value > most ? T(most) : x;
}

/// Returns the up factor of a gated activation, which multiplies the activated gate.
template <typename T>
T reference_factor(nn::MlpKind kind, const T& up) {
  return kind == nn::MlpKind::kSwiGluClamped ? 1.0 + reference_clamp(up, -7.0, 7.0) : up;
}

template <typename T>
T reference_activation(nn::MlpKind kind, const T& x) {
  using kernels::reference_erf, std::exp, std::tanh;
  switch (kind) {
    case nn::MlpKind::kGelu:
    case nn::MlpKind::kGeGluExact:
      return 0.5 * x * (1.0 + reference_erf(x / std::sqrt(2.0)));
    case nn::MlpKind::kSwiGlu:
      return x / (1.0 + exp(-x));
    case nn::MlpKind::kSwiGluClamped: {
      const T gate = reference_clamp(x, -HUGE_VAL, 7.0);
      return gate / (1.0 + exp(-1.702 * gate));
    }
    case nn::MlpKind::kGeluTanh:
    case nn::MlpKind::kGeGlu:
      break;
  }
  return 0.5 * x * (1.0 + tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

}  // namespace hawser::train
