// The stack of one emulated thread, switched by hand: a block switches thousands of times, and swapcontext
// would ask the system each time. The build chooses fiber_x86.cc or fiber_ucontext.cc.
#pragma once

#include <cstddef>

namespace hawser::cuda_emulation {

/// Where a stack stands while another one runs.
struct Context {
  void* place = nullptr;
};

/// `context` begins entry() on the stack [stack, stack + bytes) at its first switch. entry never returns.
void prepare(Context& context, char* stack, size_t bytes, void (*entry)());

/// Leaves the running stack in `from` and goes on with `to`.
void switch_context(Context& from, Context& to);

}  // namespace hawser::cuda_emulation
