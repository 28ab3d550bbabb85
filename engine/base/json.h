// JSON values (nlohmann's) that survive a heap without memory. The library's own type does not: its
// destructor walks a tree with a stack on the heap, and operator[] marks a value as an object before it
// allocates it, so that a host that is short of memory would be ended by a throwing destructor or a null
// pointer. Our type allocates nodes, and through std::allocator, specialised for it, that stack, with
// JsonAllocator: where the heap has nothing left, 1 MiB kept for this carries on until a string fails, which
// the library can bear.
//
// Include this in place of <nlohmann/json.hpp>; a test checks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hawser {

/// From the heap, else from the reserve, which any thread may use. Throws bad_alloc when both have nothing
/// left.
void* allocate_json(size_t bytes);
void free_json(void* p) noexcept;

template <typename T>
struct JsonAllocator {
  using value_type = T;
  JsonAllocator() = default;
  template <typename U>
  JsonAllocator(const JsonAllocator<U>&) noexcept {}
  T* allocate(size_t n) { return static_cast<T*>(allocate_json(n * sizeof(T))); }
  void deallocate(T* p, size_t) noexcept { free_json(p); }
  bool operator==(const JsonAllocator&) const = default;
};

using Json = nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t, double,
                                  JsonAllocator>;  ///< keys sorted
using OrderedJson = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, int64_t,
                                         uint64_t, double, JsonAllocator>;  ///< keys as they came

}  // namespace hawser

template <>
class std::allocator<hawser::Json> : public hawser::JsonAllocator<hawser::Json> {
 public:
  using JsonAllocator::JsonAllocator;
};

template <>
class std::allocator<hawser::OrderedJson> : public hawser::JsonAllocator<hawser::OrderedJson> {
 public:
  using JsonAllocator::JsonAllocator;
};
