// The sizes of a GPU's products of fp8.
#pragma once

#include <cstdint>

namespace hawser::kernels {

/// What must divide m, n and k of a product of fp8 codes on a GPU (cuBLASLt).
inline constexpr int64_t kFp8Sizes = 16;

}  // namespace hawser::kernels
