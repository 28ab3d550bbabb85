// Region: allocates memory piece by piece inside one slot. The memory plan comes from running the modules
// themselves over a measuring region, so planned sizes always match use.
#pragma once

#include <cstdint>

#include "engine/base/error.h"

namespace hawser::nn {

class Region {
 public:
  static constexpr int64_t kAlign = 64;

  Region() = default;
  Region(void* base, int64_t capacity) : base_(static_cast<char*>(base)), capacity_(capacity) {}
  /// Returns a region without memory or limit for dry runs. Its pointers must not be dereferenced.
  static Region measuring() { return Region(reinterpret_cast<void*>(uintptr_t{4096}), INT64_MAX); }

  /// Takes the next `bytes`, 64-byte aligned. Throws kInternal past the end, because then the plan was wrong.
  void* take(int64_t bytes) {
    char* const p = base_ + used_;
    used_ += (bytes + kAlign - 1) / kAlign * kAlign;
    if (used_ > high_) high_ = used_;
    if (used_ > capacity_)
      fail(Code::kInternal, "the plan reserved {} bytes where {} are needed", capacity_, used_);
    return p;
  }
  template <typename T>
  T* take_as(int64_t count) {
    return static_cast<T*>(take(count * static_cast<int64_t>(sizeof(T))));
  }

  int64_t used() const { return used_; }
  int64_t high() const { return high_; }  ///< the most bytes ever in use
  void rewind(int64_t used) { used_ = used; }

 private:
  char* base_ = nullptr;
  int64_t capacity_ = 0, used_ = 0, high_ = 0;
};

/// Frees at its end all memory taken since its construction.
class RegionScope {
 public:
  explicit RegionScope(Region& region) : region_(region), used_(region.used()) {}
  ~RegionScope() { region_.rewind(used_); }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  Region& region_;
  int64_t used_;
};

}  // namespace hawser::nn
