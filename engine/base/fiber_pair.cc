#include "engine/base/fiber_pair.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "engine/base/error.h"

namespace hawser {

FiberPair::FiberPair() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
  void* const memory =
      mmap(nullptr, page_ + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page_, PROT_NONE) != 0)
    fail(Code::kOutOfMemory, "no memory for a stack of {} bytes", kStackBytes);
  memory_ = static_cast<char*>(memory);
  add_stack(&second_notes_, memory_ + page_, kStackBytes);
  getcontext(&second_stack_);
  second_stack_.uc_stack.ss_sp = memory_ + page_;
  second_stack_.uc_stack.ss_size = kStackBytes;
  second_stack_.uc_link = nullptr;  // its function never returns
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&second_stack_, reinterpret_cast<void (*)()>(&FiberPair::begin), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

FiberPair::~FiberPair() {
  remove_stack(&second_notes_);
  munmap(memory_, page_ + kStackBytes);
}

void FiberPair::take(const Work& first, const Work& second) {
  second_ = second;
  first_runs_ = second_runs_ = true;
  try_to(first);
  first_runs_ = false;
  if (second_runs_) switch_stacks();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void FiberPair::try_to(const Work& work) {
  try {
    work.call(work.of);
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
}

void FiberPair::yield() {
  if (on_second_ ? first_runs_ : first_runs_ && second_runs_) switch_stacks();
}

void FiberPair::switch_stacks() {
  const bool to_second = !on_second_;
  on_second_ = to_second;
  FiberAnnotations &from = to_second ? first_notes_ : second_notes_,
                   &to = to_second ? second_notes_ : first_notes_;
  leave_stack(&from, &to);
  to_second ? swapcontext(&first_stack_, &second_stack_) : swapcontext(&second_stack_, &first_stack_);
  arrive_on_stack(&from, &to);
}

/// The entry of the second stack, with `this` in two halves: makecontext passes only ints.
void FiberPair::begin(unsigned high, unsigned low) {
  reinterpret_cast<FiberPair*>(uintptr_t{high} << 32 | low)->repeat();
}

/// Runs one second task after the other, forever. Between two tasks the stack holds nothing that needs a
/// destructor.
void FiberPair::repeat() {
  arrive_on_stack(&second_notes_, &first_notes_);
  for (;;) {
    try_to(second_);
    second_runs_ = false;
    switch_stacks();
  }
}

}  // namespace hawser
