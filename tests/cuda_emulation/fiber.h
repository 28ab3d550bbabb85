// Fibers: the stack of one emulated thread, and switching by our own code: a block switches thousands of
// times, and swapcontext makes a system call each time. The build chooses fiber_x86.cc or fiber_ucontext.cc.
#pragma once

#include <cstddef>

namespace hawser::cuda_emulation {

/// The state of a stack while another one runs.
struct Context {
  void* place = nullptr;
};

/// Prepares `context` to start entry() on the stack [stack, stack + bytes) at its first switch. entry must
/// never return.
void prepare(Context& context, char* stack, size_t bytes, void (*entry)());

/// Saves the running stack in `from` and continues with `to`.
void switch_context(Context& from, Context& to);

}  // namespace hawser::cuda_emulation
