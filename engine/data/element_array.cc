// One loop per operation, over the element type; loads go through memcpy because a file promises no
// alignment.
#include "engine/data/element_array.h"

#include <bit>
#include <cstring>
#include <limits>

namespace hawser::data {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and read as they are");

template <typename T>
T load(const uint8_t* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
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
    for (int64_t i = 0; i < count; ++i) out[i] = to_token(load<decltype(zero)>(data, first + i));
  });
}

int64_t ElementArray::find(int64_t first, int64_t end, int64_t value) const {
  return with_type(type, [&](auto zero) {
    for (int64_t i = first; i < end; ++i) {
      if (static_cast<int64_t>(load<decltype(zero)>(data, i)) == value) return i;
    }
    return end;
  });
}

int64_t ElementArray::at(int64_t index) const {
  return with_type(type, [&](auto zero) { return static_cast<int64_t>(load<decltype(zero)>(data, index)); });
}

}  // namespace hawser::data
