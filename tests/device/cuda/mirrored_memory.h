// MirroredMemory: buffers that exist twice: on the host, where rows of the op-case table fill and read them,
// and on a device, where kernels use them. Arguments of a kernel are translated: every pointer into a buffer
// is replaced by a pointer to the same offset of its copy.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "tests/device/cuda/opened_device.h"

namespace hawser::testing {

class MirroredMemory {
 public:
  explicit MirroredMemory(OpenedDevice& device) : device_(device) {}
  ~MirroredMemory() {
    for (const Buffer& b : buffers_) device_->release(b.there, b.bytes);
  }
  MirroredMemory(const MirroredMemory&) = delete;
  MirroredMemory& operator=(const MirroredMemory&) = delete;

  /// Allocates a host buffer, 64-byte aligned.
  void* allocate(int64_t bytes) {
    Buffer b;
    b.memory = std::make_unique<char[]>(static_cast<size_t>(bytes + kAlignment));
    b.here =
        b.memory.get() + (kAlignment - reinterpret_cast<uintptr_t>(b.memory.get()) % kAlignment) % kAlignment;
    b.bytes = bytes;
    device_.ok(device_->allocate(bytes, &b.there));
    buffers_.push_back(std::move(b));
    return buffers_.back().here;
  }
  /// Returns a buffer with a copy of n values of the host; null if there are no values.
  template <class T>
  T* copy_of(const T* values, int64_t n) {
    if (values == nullptr || n == 0) return nullptr;
    const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
    return static_cast<T*>(
        std::memcpy(allocate(bytes), static_cast<const void*>(values), static_cast<size_t>(bytes)));
  }

  /// Returns the device's address for `here`, or `here` itself if it is in no buffer. An address of this
  /// process outside the buffers fails the test, because a GPU could not read it.
  template <class T>
  T* there(T* here) const {
    const auto at = reinterpret_cast<uintptr_t>(here);
    for (const Buffer& b : buffers_) {
      const auto begin = reinterpret_cast<uintptr_t>(b.here);
      if (at < begin || at >= begin + static_cast<uintptr_t>(b.bytes)) continue;
      return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(b.there) + (at - begin));
    }
    // On 64-bit Linux, programs, heap, libraries and stacks are in this range. Sizes, counts and floats are
    // not.
    constexpr uintptr_t kFirst = 0x5000'0000'0000, kEnd = 0x8000'0000'0000;
    EXPECT_FALSE(at >= kFirst && at < kEnd) << "memory of the host in an argument for a device: " << at;
    return here;
  }
  /// Translates arguments, which are plain structs whose pointers are at multiples of their size. No size or
  /// count looks like an address.
  template <class Args>
  Args arguments_there(Args args) const {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) % sizeof(void*) == 0);
    __builtin_clear_padding(&args);  // padding may contain remains of an address
    void* words[sizeof(Args) / sizeof(void*)];
    std::memcpy(words, &args, sizeof(Args));
    for (void*& word : words) word = there(word);
    std::memcpy(&args, words, sizeof(Args));
    return args;
  }

  void send() {
    for (const Buffer& b : buffers_) device_.ok(device_->copy_to_device(b.there, b.here, b.bytes, kCompute));
  }
  /// Waits for the device, and copies its results back.
  void fetch() {
    for (const Buffer& b : buffers_) device_.ok(device_->copy_to_host(b.here, b.there, b.bytes, kCompute));
    device_.ok(device_->synchronize(kCompute));
  }

 private:
  static constexpr int64_t kAlignment = 64;
  struct Buffer {
    std::unique_ptr<char[]> memory;
    char* here = nullptr;
    void* there = nullptr;
    int64_t bytes = 0;
  };
  OpenedDevice& device_;
  std::vector<Buffer> buffers_;
};

}  // namespace hawser::testing
