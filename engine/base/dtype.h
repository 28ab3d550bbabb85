// Element types. Kernels include this header, so it uses no C++ library header.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace hawser {

/// The last seven are block types: their numbers are stored in records, which are never divided. kNf4: 4 bits
/// (engine/nn/nf4.h); only frozen weights have it. kI8Block, kI4Block: integers with a common factor
/// (kernels/include/block_records.h); gradients are sent in them. kE4m3Block, kE5m2Block: fp8 numbers with a
/// common power of two (kernels/include/fp8_records.h); activations are saved in the former. kS8Block,
/// kU8Block: signed and unsigned codes of 8 bits with a common largest magnitude
/// (kernels/include/state_records.h); optimizers keep their first and second moments in them.
enum class DType : uint8_t {
  kF32,
  kBf16,
  kF16,
  kF64,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kI8,
  kI16,
  kU64,
  kNf4,
  kI8Block,
  kI4Block,
  kE4m3Block,
  kE5m2Block,
  kS8Block,
  kU8Block
};

/// Numbers in one nf4 record, and its bytes: two 4-bit codes per byte, then one byte for the code of the
/// largest magnitude.
inline constexpr int64_t kNf4Block = 64, kNf4Record = kNf4Block / 2 + 1;

/// Numbers in one record of integers, and the bytes of a record of each type: the codes, then the largest
/// magnitude as bf16.
inline constexpr int64_t kIntBlock = 64, kI8Record = kIntBlock + 2, kI4Record = kIntBlock / 2 + 2;

/// Numbers in one record of fp8, and its bytes: the codes, then the exponent.
inline constexpr int64_t kFp8Block = 128, kFp8Record = kFp8Block + 1;

/// Numbers in one record of optimizer state, and its bytes: the codes, then the largest magnitude as f32.
inline constexpr int64_t kStateBlock = 64, kStateRecord = kStateBlock + 4;

/// The unit in which a type is stored: `bytes` bytes for `numbers` numbers.
struct DTypeUnit {
  int64_t numbers, bytes;
};
inline constexpr DTypeUnit dtype_unit(DType type) {
  // The entries are bytes, because the compiler would copy a table of wider integers to the stack.
  constexpr uint8_t kUnits[][2] = {{1, 4},
                                   {1, 2},
                                   {1, 2},
                                   {1, 8},
                                   {1, 4},
                                   {1, 8},
                                   {1, 1},
                                   {1, 2},
                                   {1, 4},
                                   {1, 1},
                                   {1, 2},
                                   {1, 8},
                                   {kNf4Block, kNf4Record},
                                   {kIntBlock, kI8Record},
                                   {kIntBlock, kI4Record},
                                   {kFp8Block, kFp8Record},
                                   {kFp8Block, kFp8Record},
                                   {kStateBlock, kStateRecord},
                                   {kStateBlock, kStateRecord}};
  const uint8_t* const unit = kUnits[static_cast<uint8_t>(type)];
  return {unit[0], unit[1]};
}

/// True if the type's numbers are stored in records.
inline constexpr bool is_block_type(DType type) { return dtype_unit(type).numbers > 1; }
/// True for records of integers.
inline constexpr bool is_int_block(DType type) { return type == DType::kI8Block || type == DType::kI4Block; }
/// True for records of optimizer state.
inline constexpr bool is_state_block(DType type) {
  return type == DType::kS8Block || type == DType::kU8Block;
}

/// Bytes of one element; 0 for a block type, whose elements have no bytes of their own.
inline constexpr int64_t dtype_bytes(DType type) { return is_block_type(type) ? 0 : dtype_unit(type).bytes; }

/// Bytes of `elements` elements of any type. Block types take whole records.
inline constexpr int64_t dtype_bytes(DType type, int64_t elements) {
  const DTypeUnit unit = dtype_unit(type);
  return (elements + unit.numbers - 1) / unit.numbers * unit.bytes;
}

/// Safetensors spelling: "F32", "BF16", ... Static storage.
inline constexpr const char* dtype_name(DType type) {
  constexpr const char* kNames[] = {
      "F32", "BF16", "F16", "F64",      "I32",      "I64",        "U8",         "U16",      "U32",     "I8",
      "I16", "U64",  "NF4", "I8_BLOCK", "I4_BLOCK", "E4M3_BLOCK", "E5M2_BLOCK", "S8_BLOCK", "U8_BLOCK"};
  return kNames[static_cast<uint8_t>(type)];
}

}  // namespace hawser
