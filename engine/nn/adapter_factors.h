// The factors of an adapter beside a weight, and the weight that means the same without one.
#pragma once

#include <cstdint>

#include "engine/nn/parameter.h"

namespace hawser::nn {

/// Both null if the weight has no adapter.
struct AdapterFactors {
  const Parameter* a = nullptr;  ///< its own, or that of a joint module
  const Parameter* b = nullptr;
  const Parameter* m = nullptr;  ///< null without magnitudes
  double scale = 0;
  explicit operator bool() const { return b != nullptr; }
};
AdapterFactors adapter_factors(const ParameterTable& table, const Parameter& weight);

/// weights[out, in] += scale B[out, rank] A[rank, in], in f32; with magnitudes m[out], each row then gets
/// that norm.
void merge_adapter(float* weights, const float* a, const float* b, const float* m, float scale, int64_t out,
                   int64_t in, int64_t rank);

/// norms[out] of the rows of weights[out, in], with the bits of kernels/include/magnitude.h.
void row_norms(float* norms, const float* weights, int64_t out, int64_t in);

}  // namespace hawser::nn
