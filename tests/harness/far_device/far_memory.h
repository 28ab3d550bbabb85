// The memory of all far devices. The host cannot access it, except memory that running devices may use.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace hawser::testing {

inline size_t pages(int64_t bytes) { return static_cast<size_t>((bytes + 4095) / 4096 * 4096); }

class FarMemory {
 public:
  void add(const void* owner, void* memory, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back({owner, memory, bytes});
  }
  void remove(const void* memory) {
    const std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [&](const Owned& block) { return block.memory == memory; });
  }
  /// Opens the memory of a device whose work begins to run, or of all devices. Returns the argument for
  /// close.
  std::vector<const void*> open(const void* owner, bool all) {
    const std::lock_guard lock(mutex_);
    std::vector<const void*> opened;
    for (Owned& block : blocks_) {
      if (block.owner != owner && !all) continue;
      if (block.users++ == 0) protect(block, PROT_READ | PROT_WRITE);
      opened.push_back(block.memory);
    }
    return opened;
  }
  void close(const std::vector<const void*>& opened) {
    const std::lock_guard lock(mutex_);
    for (Owned& block : blocks_)
      if (std::find(opened.begin(), opened.end(), block.memory) != opened.end() && --block.users == 0)
        protect(block, PROT_NONE);
  }

 private:
  struct Owned {
    const void* owner;
    void* memory;
    int64_t bytes;
    int users = 0;  ///< number of devices whose work is running
  };
  static void protect(const Owned& block, int flags) {
    if (mprotect(block.memory, pages(block.bytes), flags) != 0) std::abort();
  }
  std::mutex mutex_;
  std::vector<Owned> blocks_;
};

}  // namespace hawser::testing
