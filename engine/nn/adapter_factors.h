// Adapter factors: finds the factors of an adapter for a weight, and merges them into the weight.
#pragma once

#include <cstdint>

#include "engine/nn/parameter.h"

namespace hawser::nn {

/// The factors of one weight; all are null if it has no adapter.
struct AdapterFactors {
  const Parameter* a = nullptr;  ///< A of the weight's own module or of its joint module
  const Parameter* b = nullptr;
  const Parameter* m = nullptr;  ///< null without DoRA magnitudes
  double scale = 0;
  explicit operator bool() const { return b != nullptr; }
};
AdapterFactors adapter_factors(const ParameterTable& table, const Parameter& weight);

/// Computes weights[out, in] += scale B[out, rank] A[rank, in], in f32. If there are magnitudes m[out], each
/// row is then rescaled to the norm m.
void merge_adapter(float* weights, const float* a, const float* b, const float* m, float scale, int64_t out,
                   int64_t in, int64_t rank);

/// Computes the norm of each row of weights[out, in] into norms[out], bit-identical to
/// kernels/include/magnitude.h.
void row_norms(float* norms, const float* weights, int64_t out, int64_t in);

}  // namespace hawser::nn
