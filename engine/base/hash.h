// Hash: combines a sequence of numbers and texts into one number, to compare what ranks hold. It is not
// cryptographic.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace hawser {

class Hash {
 public:
  /// Each bit of `number` changes about half of the bits of the value (the mixing steps of SplitMix64:
  /// Steele, Lea and Flood 2014).
  Hash& add(uint64_t number) {
    uint64_t x = (value_ ^ number) + 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    value_ = x ^ x >> 31;
    return *this;
  }
  Hash& add(std::string_view text) {
    for (const char c : text) add(static_cast<uint8_t>(c));
    return add(uint64_t{text.size()});
  }
  /// Adds a number of any other type, or an enum.
  template <typename T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) Hash& add(T number) {
    return add(static_cast<uint64_t>(number));
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace hawser
