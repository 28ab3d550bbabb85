// What a sanitizer must hear of a thread that goes on on another of its stacks. Without a sanitizer nothing
// happens.
#pragma once

#include <cstddef>

namespace hawser {

/// Of one stack.
struct FiberAnnotations {
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* state = nullptr;
};

/// A stack that nothing has run on yet, and its end.
void add_stack(FiberAnnotations* stack, const void* bottom, size_t bytes);
void remove_stack(FiberAnnotations* stack);
/// Just before the thread leaves `from` for `to`, and just after it has come back to, or begun on, `to`.
void leave_stack(FiberAnnotations* from, FiberAnnotations* to);
void arrive_on_stack(FiberAnnotations* to, FiberAnnotations* from);

}  // namespace hawser
