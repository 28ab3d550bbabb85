// Rotary position embedding (Su et al., arXiv 2104.09864). As in Hugging Face Transformers, element j of a
// head is rotated with element j + d/2; interleaved, as in the paper, element 2j with element 2j + 1.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// Rotates d elements of each of `heads` heads, which begin head_stride elements apart at x + row * stride,
/// in place, by the angles of cos_sin[positions[row]]: f32 [max_positions, d/2, 2] = (cos, sin), including
/// the attention factor. `inverse` rotates the other way (the backward). d is even; type is f32 or bf16, the
/// arithmetic is in fp32; positions are in range.
struct Rope {
  void* x = nullptr;
  const float* cos_sin = nullptr;
  const int32_t* positions = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, heads = 0, d = 0, stride = 0;
  bool inverse = false;
  bool interleaved = false;
  int64_t head_stride = 0;  ///< 0: d

  constexpr int64_t between_heads() const { return head_stride > 0 ? head_stride : d; }
};

}  // namespace hawser::kernels
