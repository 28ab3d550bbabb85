// FiberPair: runs two tasks on one thread as cooperative fibers, so that one computes while the other waits
// for an exchange with other ranks. A task yields only in yield(), so the interleaving is deterministic:
// ranks with equal work execute it in the same order.
//
// The second task has its own stack (ucontext). Callers, thread-locals and the debugger see one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <exception>

#include "engine/base/fiber_annotations.h"

namespace hawser {

class FiberPair {
 public:
  /// Allocates the second stack, once. Throws kOutOfMemory if there is no memory for it.
  FiberPair();
  ~FiberPair();
  FiberPair(const FiberPair&) = delete;
  FiberPair& operator=(const FiberPair&) = delete;

  /// Runs both tasks to their ends, starting with `first`. When one has ended, with or without an error, the
  /// other continues alone. Then throws the first error, if any. Allocates nothing.
  template <typename First, typename Second>
  void run(First first, Second second) {
    take({[](void* f) { (*static_cast<First*>(f))(); }, &first},
         {[](void* f) { (*static_cast<Second*>(f))(); }, &second});
  }
  /// Yields to the other task until that one yields or ends. Returns at once if the other task has ended.
  void yield();

 private:
  struct Work {
    void (*call)(void* of);
    void* of;
  };
  void take(const Work& first, const Work& second);
  void try_to(const Work& work);
  void switch_stacks();
  static void begin(unsigned high, unsigned low);
  [[noreturn]] void repeat();

  static constexpr size_t kStackBytes = size_t{1} << 20;
  char* memory_;  // an inaccessible guard page, then the stack
  size_t page_;
  ucontext_t first_stack_{}, second_stack_{};
  FiberAnnotations first_notes_, second_notes_;
  Work second_{};
  bool first_runs_ = false, second_runs_ = false;  // true until the task has ended
  bool on_second_ = false;
  std::exception_ptr error_;
};

}  // namespace hawser
