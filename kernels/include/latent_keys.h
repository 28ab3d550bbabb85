// Keys and values of latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). A head's key is its own
// part, followed by the rotated part that all heads share.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// The sizes of both directions. For each row, `up` has [heads, own + value], dense; the shared part is at +
/// row * shared_stride and has `shared` elements; k has [heads, own + shared] and v [heads, value], both
/// kv_stride apart.
struct LatentShape {
  DType type = DType::kF32;  ///< type of all arrays, f32 or bf16
  int64_t rows = 0, heads = 0;
  int64_t own = 0, shared = 0, value = 0;
  int64_t shared_stride = 0, kv_stride = 0;

  constexpr int64_t up_head() const { return own + value; }
  constexpr int64_t key_head() const { return own + shared; }
};

/// Copies the parts: overwrites k and v, which must not overlap other arrays.
struct LatentKeys {
  LatentShape s;
  void* k = nullptr;
  void* v = nullptr;
  const void* up = nullptr;
  const void* shared = nullptr;
};

/// Overwrites d_up and d_shared. d_shared is the sum over heads, ascending, in fp32, rounded once.
struct LatentKeysBackward {
  LatentShape s;
  void* d_up = nullptr;
  void* d_shared = nullptr;
  const void* dk = nullptr;
  const void* dv = nullptr;
};

}  // namespace hawser::kernels
