// ThreadKey: a pthread key that is created at its first use, for values that must be destroyed with their
// thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <optional>

namespace hawser::capi {

class ThreadKey {
 public:
  /// When a thread ends that has a value, `at_end` gets it, after the thread-local destructors of the host
  /// program.
  constexpr explicit ThreadKey(void (*at_end)(void*)) : at_end_(at_end) {}

  /// Returns nullopt if the process has no key left. It allocates nothing and may be called on any thread.
  std::optional<pthread_key_t> get() noexcept {
    int64_t known = key_.load(std::memory_order_acquire);
    if (known != kNone) return static_cast<pthread_key_t>(known);
    pthread_key_t mine = 0;
    if (pthread_key_create(&mine, at_end_) != 0) return std::nullopt;
    if (key_.compare_exchange_strong(known, mine, std::memory_order_acq_rel)) return mine;
    pthread_key_delete(mine);
    return static_cast<pthread_key_t>(known);
  }

 private:
  static constexpr int64_t kNone = -1;
  void (*const at_end_)(void*);
  std::atomic<int64_t> key_{kNone};
};

}  // namespace hawser::capi
