// JSON values (nlohmann's) that survive an exhausted heap. The library's own value type does not: its
// destructor walks a tree with a stack on the heap, and operator[] marks a value as an object before it
// allocates the object. In a host program short of memory, the destructor would throw or a null pointer be
// followed. If the heap is exhausted, our type takes its containers and that stack from reserved memory
// (through a specialised std::allocator). Values inside the containers still fail to allocate, but the
// library handles that case, so little of the reserve is ever in use.
//
// Include this instead of <nlohmann/json.hpp>; a test checks that.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json_fwd.h"

namespace hawser {

// Memory for values in containers. It comes from the heap only and throws bad_alloc, as do the next two
// functions when the reserve is used up.
void* allocate_json(size_t bytes);
void free_json(void* p) noexcept;
// Memory for a map, vector or string of at most kJsonContainer bytes. A constructor whose contents fail to
// allocate may leak it; cells returned later replace leaked ones.
inline constexpr size_t kJsonContainer = 64;
void* allocate_json_container();
void free_json_container(void* p) noexcept;
// Memory for the stack of a destructor.
void* allocate_json_stack(size_t bytes);
void free_json_stack(void* p) noexcept;

template <typename T>
concept JsonValue = requires {
  typename T::json_pointer;
};
/// Types of containers: maps, vectors and strings, but not the values in them.
template <typename T>
concept JsonContainer = !JsonValue<T> && requires {
  typename T::value_type;
};

template <typename T>
struct JsonAllocator {
  using value_type = T;
  JsonAllocator() = default;
  template <typename U>
  JsonAllocator(const JsonAllocator<U>&) noexcept {}
  T* allocate(size_t n) {
    if constexpr (JsonContainer<T>) {
      static_assert(sizeof(T) <= kJsonContainer);
      return static_cast<T*>(allocate_json_container());  // n is 1
    } else {
      return static_cast<T*>(allocate_json(n * sizeof(T)));
    }
  }
  void deallocate(T* p, size_t) noexcept { JsonContainer<T> ? free_json_container(p) : free_json(p); }
  bool operator==(const JsonAllocator&) const = default;
};

template <typename T>
struct JsonStackAllocator {
  using value_type = T;
  JsonStackAllocator() = default;
  T* allocate(size_t n) { return static_cast<T*>(allocate_json_stack(n * sizeof(T))); }
  void deallocate(T* p, size_t) noexcept { free_json_stack(p); }
  bool operator==(const JsonStackAllocator&) const = default;
};

/// Maximum nesting of arrays and objects in a JSON text. Copying, comparing and printing a value recurse once
/// per level, so a deep text from an untrusted source would overflow the stack of the host program's thread.
inline constexpr int kMostJsonDepth = 64;

/// True if the text nests deeper than kMostJsonDepth; *at is then the offset of the first bracket beyond it.
bool nests_too_deep(std::string_view json, size_t* at);

/// Returns the value of a JSON text; J is Json or OrderedJson. Nothing else in the library parses JSON into
/// values; a test checks this. Throws Json::exception if the text is not JSON: a parse_error with the offset,
/// unless a number is out of range. A text that nests deeper than kMostJsonDepth is a parse_error too.
template <typename J>
J parse_json(std::string_view text);
/// Like parse_json, but returns a discarded value, which has no type, if the text is not JSON or nests too
/// deep.
template <typename J>
J parse_json_or_discard(std::string_view text);
extern template Json parse_json(std::string_view);
extern template OrderedJson parse_json(std::string_view);
extern template Json parse_json_or_discard(std::string_view);
extern template OrderedJson parse_json_or_discard(std::string_view);

/// Returns the offset, counted from 1, at which the text stops being JSON; 0 if it is JSON of any depth.
/// Builds no values.
size_t json_error_at(std::string_view text);

/// Returns `value`, or null if it is infinite or NaN, which JSON cannot represent.
inline OrderedJson finite_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson();
}

}  // namespace hawser

template <>
class std::allocator<hawser::Json> : public hawser::JsonStackAllocator<hawser::Json> {};

template <>
class std::allocator<hawser::OrderedJson> : public hawser::JsonStackAllocator<hawser::OrderedJson> {};
