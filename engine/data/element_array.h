// ElementArray: integers of a given width in a file, read as token ids. Raw token files, Megatron files and
// text by bytes are such arrays.
#pragma once

#include <cstdint>

#include "engine/base/input_file.h"

namespace hawser::data {

enum class ElementType : uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kI64 };

/// Returns the bytes of one element.
int64_t element_bytes(ElementType type);
/// Returns "u8", "i64", ... Static storage.
const char* element_name(ElementType type);

/// The elements of a complete file, which is borrowed. Elements are little-endian. Members throw what
/// InputFile::read_at throws.
struct ElementArray {
  const InputFile* file = nullptr;
  int64_t size = 0;  ///< elements
  ElementType type = ElementType::kU8;

  /// Copies elements [first, first + count) to out. A value outside int32 becomes -1, which is not a token
  /// id. The range must be inside [0, size). Allocates nothing.
  void copy(int64_t first, int64_t count, int32_t* out) const;
  /// Returns the first index in [first, end) whose element equals `value`; `end` if there is none.
  int64_t find(int64_t first, int64_t end, int64_t value) const;
  /// Returns the element as stored.
  int64_t at(int64_t index) const;
};

}  // namespace hawser::data
