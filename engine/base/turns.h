// Turns: two pieces of work of one thread that take turns, so that one computes while the other waits for
// ranks that have not answered yet. They change only where they say so (pass), so the order of all that they
// do depends on nothing else: ranks with the same work do the same in the same order.
//
// The second piece has a stack of its own (ucontext). To the thread's callers, its locals and its debugger
// all is one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <exception>

#include "engine/base/fiber_annotations.h"

namespace hawser {

class Turns {
 public:
  /// Throws kOutOfMemory if there is no memory for the stack, which is taken once.
  Turns();
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Runs both to their ends, beginning with `first`. Once one has ended, with an error or without, the other
  /// goes on alone. Then throws the error that came first. Allocates nothing.
  template <typename First, typename Second>
  void run(First first, Second second) {
    take({[](void* f) { (*static_cast<First*>(f))(); }, &first},
         {[](void* f) { (*static_cast<Second*>(f))(); }, &second});
  }
  /// The other goes on, until it passes or ends. Returns at once if there is no other.
  void pass();

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
  char* memory_;  // a page that nothing may touch, then the stack
  size_t page_;
  ucontext_t first_stack_{}, second_stack_{};
  FiberAnnotations first_notes_, second_notes_;
  Work second_{};
  bool first_runs_ = false, second_runs_ = false;  // has not ended
  bool on_second_ = false;
  std::exception_ptr error_;
};

}  // namespace hawser
