// ElementArray: implements each operation as one loop over blocks of the file, for any element type.
#include "engine/data/element_array.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace hawser::data {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and read as they are");

/// Calls fn(block, n) for the blocks of elements [first, end) in order, until fn returns false.
template <typename T, typename Fn>
void for_blocks(const InputFile& file, int64_t first, int64_t end, Fn&& fn) {
  constexpr int64_t kElements = 8192 / sizeof(T);
  T block[kElements];
  for (bool more = true; more && first < end;) {
    const int64_t n = std::min(kElements, end - first), bytes = static_cast<int64_t>(sizeof(T));
    file.read_at(first * bytes, block, n * bytes);
    more = fn(block, n);
    first += n;
  }
}

template <typename T>
int32_t to_token(T value) {
  if constexpr (std::numeric_limits<T>::max() > std::numeric_limits<int32_t>::max()) {
    return value >= 0 && value <= static_cast<T>(std::numeric_limits<int32_t>::max())
               ? static_cast<int32_t>(value)
               : -1;
  } else {
    return static_cast<int32_t>(value);
  }
}

/// Calls fn(T()) with the element's C++ type.
template <typename Fn>
auto with_type(ElementType type, Fn&& fn) {
  switch (type) {
    case ElementType::kI8:
      return fn(int8_t());
    case ElementType::kU16:
      return fn(uint16_t());
    case ElementType::kI16:
      return fn(int16_t());
    case ElementType::kU32:
      return fn(uint32_t());
    case ElementType::kI32:
      return fn(int32_t());
    case ElementType::kI64:
      return fn(int64_t());
    case ElementType::kU8:
      break;
  }
  return fn(uint8_t());
}

}  // namespace

int64_t element_bytes(ElementType type) {
  return with_type(type, [](auto zero) { return static_cast<int64_t>(sizeof(zero)); });
}

const char* element_name(ElementType type) {
  constexpr const char* kNames[] = {"u8", "i8", "u16", "i16", "u32", "i32", "i64"};
  return kNames[static_cast<uint8_t>(type)];
}

void ElementArray::copy(int64_t first, int64_t count, int32_t* out) const {
  with_type(type, [&](auto zero) {
    for_blocks<decltype(zero)>(*file, first, first + count, [&](const auto* block, int64_t n) {
      out = std::transform(block, block + n, out, [](auto value) { return to_token(value); });
      return true;
    });
  });
}

int64_t ElementArray::find(int64_t first, int64_t end, int64_t value) const {
  with_type(type, [&](auto zero) {
    for_blocks<decltype(zero)>(*file, first, end, [&](const auto* block, int64_t n) {
      const auto* found = std::find_if(block, block + n,
                                       [&](auto element) { return static_cast<int64_t>(element) == value; });
      first += found - block;
      return found == block + n;
    });
  });
  return first;
}

int64_t ElementArray::at(int64_t index) const {
  return with_type(type, [&](auto element) {
    file->read_at(index * static_cast<int64_t>(sizeof element), &element, sizeof element);
    return static_cast<int64_t>(element);
  });
}

}  // namespace hawser::data
