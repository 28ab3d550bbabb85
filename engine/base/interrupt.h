// The host's poll: a long call asks it at times, on the thread that made the call, whether to end.
//
// Each thread has its own poll. Threads of the library have none.
#pragma once

namespace hawser {

/// Sets the poll of the calling thread; null: none. It returns true to end the running call.
void set_interrupt_poll(bool (*poll)(void* user), void* user);

/// Asks the calling thread's poll, every 20 ms at most: whether to end what runs.
bool interrupted();

/// Throws kCancelled if interrupted.
void check_interrupt();

}  // namespace hawser
