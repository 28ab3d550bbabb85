// Fault: the reason why a Comm is broken. The first reason stays, and all waiting calls throw it.
#pragma once

#include <atomic>
#include <mutex>

#include "engine/base/error.h"

namespace hawser::comm {

class Fault {
 public:
  bool is_set() const { return set_.load(std::memory_order_seq_cst); }
  /// Sets the reason and returns true, unless there already is one. It allocates nothing.
  bool set(const Error& error) noexcept {
    const std::lock_guard lock(mutex_);
    if (set_.load()) return false;
    error_ = error;
    set_.store(true, std::memory_order_seq_cst);
    return true;
  }
  /// Returns the reason. Call it only if is_set().
  Error error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void raise_if_set() const {
    if (is_set()) throw error();
  }

 private:
  std::atomic<bool> set_{false};
  mutable std::mutex mutex_;
  Error error_ = Error::fixed(Code::kInternal, "");
};

}  // namespace hawser::comm
