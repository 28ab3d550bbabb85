// Arena: the one block of memory of a rank, sized by the memory plan before anything runs.
#pragma once

#include <cstdint>
#include <memory>

namespace hawser::device {

/// Zeroed, 2 MiB-aligned, page-granular memory from the operating system; freed with the last reference
/// (views keep it). Under AddressSanitizer ranges may be poisoned.
class Arena {
 public:
  /// Throws kOutOfMemory (needed and available bytes). bytes may be 0.
  static std::shared_ptr<Arena> create(int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Arena(char* data, int64_t bytes) : data_(data), bytes_(bytes) {}
  char* data_;
  int64_t bytes_;
};

/// Marks [p, p + bytes) unusable or usable for AddressSanitizer; nothing in other builds. The build chooses
/// poison_asan.cc or poison_none.cc.
void poison(void* p, int64_t bytes);
void unpoison(void* p, int64_t bytes);

/// Memory that this process may still take: the least of free memory, cgroup and address-space limits.
int64_t available_memory();

}  // namespace hawser::device
