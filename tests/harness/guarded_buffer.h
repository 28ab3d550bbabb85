// GuardedBuffer: memory between two fences of known bytes, to detect kernels that write outside their
// declared memory.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace hawser::testing {

/// `count` elements of T on a 64-byte boundary, filled with bytes of 0xff: NaN in every floating type.
template <class T>
class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t count)
      : count_(count),
        bytes_(static_cast<size_t>(count) * sizeof(T)),
        memory_(bytes_ + 2 * kFence + 64, kMark) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kFence;
    data_ = reinterpret_cast<T*>((address + 63) / 64 * 64);
    poison();
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return count_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  [[gnu::noinline]] void poison() { std::memset(static_cast<void*>(data_), 0xff, bytes_); }

  bool intact() const {
    const auto* first = reinterpret_cast<const uint8_t*>(data_);
    for (const uint8_t* p = memory_.data(); p < first; ++p) {
      if (*p != kMark) return false;
    }
    for (const uint8_t* p = first + bytes_; p < memory_.data() + memory_.size(); ++p) {
      if (*p != kMark) return false;
    }
    return true;
  }
  bool same_bits(const GuardedBuffer& other) const {
    return count_ == other.count_ && std::memcmp(data_, other.data_, bytes_) == 0;
  }

 private:
  static constexpr size_t kFence = 256;
  static constexpr uint8_t kMark = 0xa5;
  int64_t count_;
  size_t bytes_;
  std::vector<uint8_t> memory_;
  T* data_;
};

}  // namespace hawser::testing
