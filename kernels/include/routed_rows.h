// Moves rows to experts and back: sorts them by expert, so that each expert multiplies consecutive rows.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// Sorts the `rows` x top_k choices by expert, and those of an expert by row. Choice c = row top_k + j gets
/// slot place[c]; order[p] is the choice in slot p; expert e has the slots offsets[e] to offsets[e + 1]. An
/// expert takes at most `capacity` choices; place is -1 for later ones. order is written only up to
/// offsets[experts].
struct GroupRows {
  int32_t* offsets = nullptr;  ///< [experts + 1]
  int32_t* order = nullptr;    ///< [rows top_k]
  int32_t* place = nullptr;    ///< [rows top_k]
  const int32_t* choice = nullptr;
  int64_t rows = 0, top_k = 0, experts = 0;
  int64_t capacity = 0;          ///< 0: no limit
  int32_t* workspace = nullptr;  ///< [experts]
};

/// y[p] = x[order[p] / top_k] for p < *end (a null end: for p < rows): rows of d elements of `type` (f32 or
/// bf16). If order[p] is negative, y[p] is unchanged.
struct GatherRows {
  void* y = nullptr;
  const void* x = nullptr;
  const int32_t* order = nullptr;
  const int32_t* end = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0;  ///< maximum of *end
  int64_t top_k = 0, d = 0;
};

/// y[row] (+)= the sum of x[place[row top_k + j]] over j, ascending, without dropped choices; f32. With
/// `round_to`, each element of x is rounded first, as if it had been sent between ranks.
struct CombineRows {
  float* y = nullptr;
  const float* x = nullptr;
  const int32_t* place = nullptr;
  int64_t rows = 0, top_k = 0, d = 0;
  bool accumulate = false;
  DType round_to = DType::kF32;
};

}  // namespace hawser::kernels
