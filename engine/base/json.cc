#include "engine/base/json.h"

#include <sched.h>

#include <atomic>
#include <functional>
#include <new>

namespace hawser {
namespace {

constexpr size_t kReserve = size_t{1} << 20, kAlign = alignof(std::max_align_t);

/// Blocks one after the other; all room comes back when the last one goes. That is soon: whatever lives here
/// belongs to a call that is about to fail for want of memory.
class Reserve {
 public:
  void* take(size_t bytes) {
    const size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
    lock();
    void* p = nullptr;
    if (bytes <= kReserve && rounded <= kReserve - used_) {
      p = memory_ + used_;
      used_ += rounded;
      ++blocks_;
    }
    unlock();
    return p;
  }
  bool holds(const void* p) const {
    return !std::less<>{}(p, static_cast<const void*>(memory_)) &&
           std::less<>{}(p, static_cast<const void*>(memory_ + kReserve));
  }
  void give_back() {
    lock();
    if (--blocks_ == 0) used_ = 0;
    unlock();
  }

 private:
  void lock() {
    while (locked_.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  void unlock() { locked_.clear(std::memory_order_release); }

  std::atomic_flag locked_;
  size_t used_ = 0, blocks_ = 0;
  alignas(kAlign) char memory_[kReserve] = {};
};

constinit Reserve g_reserve;

}  // namespace

void* allocate_json(size_t bytes) {
  if (void* p = ::operator new(bytes, std::nothrow)) return p;
  if (void* p = g_reserve.take(bytes)) return p;
  throw std::bad_alloc();
}

void free_json(void* p) noexcept {
  if (g_reserve.holds(p)) {
    g_reserve.give_back();
  } else {
    ::operator delete(p);
  }
}

}  // namespace hawser
