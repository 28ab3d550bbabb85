// The activation of experts, multiplied by the weight of the token. The product that follows is linear, so
// this equals weighting the expert's output, and the weight's gradient needs only the activation.
#pragma once

#include "kernels/include/activation.h"

namespace hawser::kernels {

/// Fields of both directions. Row p < *end has the weight weights[order[p]]. A null order is the identity, a
/// null end means all rows; null weights are 1. The other fields are as in ActivationForward.
struct ExpertActivation {
  const void* h = nullptr;
  const float* weights = nullptr;
  const int32_t* order = nullptr;
  const int32_t* end = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, f = 0;
  Activation kind = Activation::kGelu;
  bool gated = false;
};

/// Computes ActivationForward for these rows, times their weights.
struct ExpertActivationForward : ExpertActivation {
  void* y = nullptr;
};

/// Computes dh and, unless null, dweights[order[p]] from dy; y receives the forward's output again, bit for
/// bit. y may alias dy exactly. Entries of dweights without a row are not written.
struct ExpertActivationBackward : ExpertActivation {
  void* dh = nullptr;
  void* y = nullptr;
  float* dweights = nullptr;
  const void* dy = nullptr;
};

}  // namespace hawser::kernels
