// ElementArray: integers of some width in a file, read as token ids. Raw token files, Megatron files and text
// by bytes are all such arrays.
#pragma once

#include <cstdint>

#include "engine/base/input_file.h"

namespace hawser::data {

enum class ElementType : uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kI64 };

/// Bytes of one element.
int64_t element_bytes(ElementType type);
/// "u8", "i64", ... Static storage.
const char* element_name(ElementType type);

/// All of a file from its start; borrows the file. Elements are little-endian. Throws as InputFile::read_at.
struct ElementArray {
  const InputFile* file = nullptr;
  int64_t size = 0;  ///< elements
  ElementType type = ElementType::kU8;

  /// Elements [first, first + count) into out; a value outside int32 becomes -1, which is no token id. The
  /// caller keeps the range inside [0, size). Allocates nothing.
  void copy(int64_t first, int64_t count, int32_t* out) const;
  /// First index in [first, end) whose element equals `value`; `end` if none.
  int64_t find(int64_t first, int64_t end, int64_t value) const;
  /// The element as it stands in the file.
  int64_t at(int64_t index) const;
};

}  // namespace hawser::data
