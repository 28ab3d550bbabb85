// Rows on their way to experts and back: sorted by expert, so that each expert multiplies consecutive rows.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// Sorts the `rows` x top_k choices by expert, those of an expert by row. Choice c = row top_k + j comes to
/// place[c]; order[p] is the choice at place p; expert e has the places offsets[e] to offsets[e + 1]. An
/// expert takes `capacity` choices; place is -1 for later ones. order is written up to offsets[experts] only.
struct GroupRows {
  int32_t* offsets = nullptr;  ///< [experts + 1]
  int32_t* order = nullptr;    ///< [rows top_k]
  int32_t* place = nullptr;    ///< [rows top_k]
  const int32_t* choice = nullptr;
  int64_t rows = 0, top_k = 0, experts = 0;
  int64_t capacity = 0;          ///< 0: no limit
  int32_t* workspace = nullptr;  ///< [experts]
};

/// y[p] = x[order[p] / top_k] for p < *end: rows of d elements of `type` (f32 or bf16). A null end: for p <
/// rows. Where order[p] is negative, y[p] stays as it is.
struct GatherRows {
  void* y = nullptr;
  const void* x = nullptr;
  const int32_t* order = nullptr;
  const int32_t* end = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0;  ///< the most that *end may be
  int64_t top_k = 0, d = 0;
};

/// y[row] (+)= the sum of x[place[row top_k + j]] over j, ascending, without dropped ones; f32. With
/// round_to_bf16 each element of x is rounded first, as where it travelled between ranks.
struct CombineRows {
  float* y = nullptr;
  const float* x = nullptr;
  const int32_t* place = nullptr;
  int64_t rows = 0, top_k = 0, d = 0;
  bool accumulate = false, round_to_bf16 = false;
};

}  // namespace hawser::kernels
