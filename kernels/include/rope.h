// Rotary position embedding (Su et al., arXiv 2104.09864), half-split pairing as in Hugging Face
// Transformers: element j of a head turns with element j + d/2.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// Rotates `heads` consecutive heads of d elements at x + row * stride, in place, by the angles of
/// cos_sin[positions[row]]: f32 [max_positions, d/2, 2] = (cos, sin), including the attention factor.
/// `inverse` rotates the other way (the backward). d even; type f32 or bf16, arithmetic in fp32; positions in
/// range.
struct Rope {
  void* x = nullptr;
  const float* cos_sin = nullptr;
  const int32_t* positions = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, heads = 0, d = 0, stride = 0;
  bool inverse = false;
};

}  // namespace hawser::kernels
