// Fiber-switch annotations for ThreadSanitizer. It treats each stack as a thread, and a switch as an ordering
// between the two.
#include <sanitizer/tsan_interface.h>

#include "engine/base/fiber_annotations.h"

namespace hawser {

void add_stack(FiberAnnotations* stack, const void*, size_t) { stack->state = __tsan_create_fiber(0); }
void remove_stack(FiberAnnotations* stack) { __tsan_destroy_fiber(stack->state); }
void leave_stack(FiberAnnotations* from, FiberAnnotations* to) {
  from->state = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to->state, 0);
}
void arrive_on_stack(FiberAnnotations*, FiberAnnotations*) {}

}  // namespace hawser
