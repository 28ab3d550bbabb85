// Switches stacks by POSIX contexts, which are slower, on processors for which there is no assembly.
#include <ucontext.h>

#include <map>

#include "tests/cuda_emulation/fiber.h"

namespace hawser::cuda_emulation {
namespace {

/// Returns the ucontext_t of a Context. They are kept, because blocks prepare the same ones repeatedly.
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
