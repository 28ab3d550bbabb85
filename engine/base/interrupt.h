// The host's poll: a long call asks it at times, on the thread that made the call, whether to end.
//
// Each thread has its own poll. A thread of the library has none, unless an InterruptFlag gives it one.
#pragma once

#include <atomic>

namespace hawser {

/// Sets the poll of the calling thread; null: none. It returns true to end the running call.
void set_interrupt_poll(bool (*poll)(void* user), void* user);

/// Asks the calling thread's poll, every 20 ms at most: whether to end what runs.
bool interrupted();

/// Throws kCancelled if interrupted.
void check_interrupt();

/// The poll of a thread of the library while it works for a call of another thread: a flag that the other
/// thread sets when its own poll ends the call.
class InterruptFlag {
 public:
  explicit InterruptFlag(const std::atomic<bool>* flag);
  ~InterruptFlag() { set_interrupt_poll(nullptr, nullptr); }
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
};

}  // namespace hawser
