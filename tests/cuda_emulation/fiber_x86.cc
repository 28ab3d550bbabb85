// Switches stacks on x86-64: the registers that a call preserves (System V ABI) are saved on the stack.
#include <cstdint>

#include "tests/cuda_emulation/fiber.h"

asm(R"(
.text
.type hawser_switch_stack, @function
hawser_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size hawser_switch_stack, .-hawser_switch_stack
)");

extern "C" void hawser_switch_stack(void** from, void* to);

namespace hawser::cuda_emulation {

void prepare(Context& context, char* stack, size_t bytes, void (*entry)()) {
  const auto top = (reinterpret_cast<uintptr_t>(stack) + bytes) / 16 * 16;
  auto* place = reinterpret_cast<void**>(top);
  *--place = nullptr;  // the return address of entry: there is none, but it keeps the alignment of a call
  *--place = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--place = nullptr;
  context.place = place;
}

void switch_context(Context& from, Context& to) { hawser_switch_stack(&from.place, to.place); }

}  // namespace hawser::cuda_emulation
