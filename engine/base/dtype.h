// Element types. Kernels include this header, so it uses no C++ library header.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace hawser {

enum class DType : uint8_t { kF32, kBf16, kF16, kF64, kI32, kI64, kU8, kU16, kU32, kI8, kI16, kU64 };

/// Bytes of one element.
inline constexpr int64_t dtype_bytes(DType type) {
  constexpr int64_t kBytes[] = {4, 2, 2, 8, 4, 8, 1, 2, 4, 1, 2, 8};
  return kBytes[static_cast<uint8_t>(type)];
}

/// Safetensors spelling: "F32", "BF16", ... Static storage.
inline constexpr const char* dtype_name(DType type) {
  constexpr const char* kNames[] = {"F32", "BF16", "F16", "F64", "I32", "I64",
                                    "U8",  "U16",  "U32", "I8",  "I16", "U64"};
  return kNames[static_cast<uint8_t>(type)];
}

}  // namespace hawser
