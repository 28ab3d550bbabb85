// Switching stacks where there is no assembly for it: the contexts of POSIX, slower.
#include <ucontext.h>

#include <map>

#include "tests/cuda_emulation/fiber.h"

namespace hawser::cuda_emulation {
namespace {

/// Each Context's own; kept, because blocks prepare the same ones again and again.
ucontext_t& context_of(Context& context) {
  static std::map<Context*, ucontext_t> all;
  return all[&context];
}

}  // namespace

void prepare(Context& context, char* stack, size_t bytes, void (*entry)()) {
  ucontext_t& c = context_of(context);
  getcontext(&c);
  c.uc_stack.ss_sp = stack;
  c.uc_stack.ss_size = bytes;
  c.uc_link = nullptr;
  makecontext(&c, entry, 0);
}

void switch_context(Context& from, Context& to) { swapcontext(&context_of(from), &context_of(to)); }

}  // namespace hawser::cuda_emulation
