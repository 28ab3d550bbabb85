// Interrupt poll: a callback that a long call invokes on the calling thread, at most every 20 ms; it returns
// true to cancel the call.
//
// Each thread has its own poll. A thread of the library has none unless an InterruptFlag gives it one.
#pragma once

#include <atomic>

namespace hawser {

/// Sets the poll of the calling thread; null: none. It returns true to end the running call.
void set_interrupt_poll(bool (*poll)(void* user), void* user);

/// Calls the calling thread's poll, at most every 20 ms. Returns true if the poll cancels the running call.
bool interrupted();

/// Throws kCancelled if interrupted() returns true.
void check_interrupt();

/// Gives a thread of the library a poll while it works for a call of another thread: a flag, which the other
/// thread sets when its own poll cancels the call.
class InterruptFlag {
 public:
  explicit InterruptFlag(const std::atomic<bool>* flag);
  ~InterruptFlag() { set_interrupt_poll(nullptr, nullptr); }
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
};

}  // namespace hawser
