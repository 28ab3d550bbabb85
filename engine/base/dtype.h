// Element types. Kernels include this header, so it uses no C++ library header.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace hawser {

/// kNf4: 4 bits, in records of kNf4Block numbers (engine/nn/nf4.h); only frozen weights have it.
enum class DType : uint8_t { kF32, kBf16, kF16, kF64, kI32, kI64, kU8, kU16, kU32, kI8, kI16, kU64, kNf4 };

/// Numbers in one nf4 record, and its bytes: two 4-bit codes per byte, then one byte for the code of the
/// largest magnitude.
inline constexpr int64_t kNf4Block = 64, kNf4Record = kNf4Block / 2 + 1;

/// Bytes of one element; the type must not be kNf4.
inline constexpr int64_t dtype_bytes(DType type) {
  constexpr int64_t kBytes[] = {4, 2, 2, 8, 4, 8, 1, 2, 4, 1, 2, 8, 0};
  return kBytes[static_cast<uint8_t>(type)];
}

/// Bytes of `elements` elements of any type. kNf4 takes whole records.
inline constexpr int64_t dtype_bytes(DType type, int64_t elements) {
  return type == DType::kNf4 ? (elements + kNf4Block - 1) / kNf4Block * kNf4Record
                             : elements * dtype_bytes(type);
}

/// Safetensors spelling: "F32", "BF16", ... Static storage.
inline constexpr const char* dtype_name(DType type) {
  constexpr const char* kNames[] = {"F32", "BF16", "F16", "F64", "I32", "I64", "U8",
                                    "U16", "U32",  "I8",  "I16", "U64", "NF4"};
  return kNames[static_cast<uint8_t>(type)];
}

}  // namespace hawser
