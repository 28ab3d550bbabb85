// Biases of experts. ExpertBias adds the biases before the activation to the rows of each expert. The biases
// of the output are added as a matrix product, gate weights [rows, experts] times biases [experts, d], for
// which SpreadWeights makes the matrix of gate weights.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// Rows offsets[g] to offsets[g + 1] of an array [rows, n] belong to group g; its rows are `stride` elements
/// apart. `rows` is the maximum of offsets[groups].
struct GroupedRows {
  const int32_t* offsets = nullptr;
  int64_t groups = 0, rows = 0, n = 0, stride = 0;
  DType type = DType::kF32;  ///< type of the array, f32, bf16 or f16
};

/// y[its rows, j] += bias[g][j], bias f32 [groups, n]; rounded once.
struct ExpertBias {
  GroupedRows s;
  void* y = nullptr;
  const float* bias = nullptr;
};

/// dbias[first + g][j] (+)= the sum of dy[its rows, j], as f32 sums in ascending order within fixed blocks of
/// a group's rows, blocks in ascending order. dbias is [total, n]; unless accumulated, its other rows become
/// 0.
struct ExpertBiasSum {
  GroupedRows s;
  float* dbias = nullptr;
  const void* dy = nullptr;
  int64_t first = 0, total = 0;
  bool accumulate = false;
};

/// The experts that rows chose: choice[row * top_k + j] is the number of an expert. If place[row * top_k + j]
/// is negative, the choice was dropped.
struct ChosenExperts {
  const int32_t* choice = nullptr;
  const int32_t* place = nullptr;
  int64_t rows = 0, top_k = 0, experts = 0;
};

/// y[rows, experts] = the weights [rows, top_k] of the chosen experts, and 0 elsewhere.
struct SpreadWeights {
  ChosenExperts s;
  float* y = nullptr;
  const float* weights = nullptr;
};

/// y[rows, top_k] += the elements of x[rows, experts] of the chosen experts. Elements of dropped choices are
/// not written.
struct AddChosen {
  ChosenExperts s;
  float* y = nullptr;
  const float* x = nullptr;
};

}  // namespace hawser::kernels
