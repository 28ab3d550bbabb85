// Fiber-switch annotations for AddressSanitizer. It needs the bounds of the next stack at each switch, and
// saves the fake stack of the previous one in `state`.
#include <sanitizer/common_interface_defs.h>

#include "engine/base/fiber_annotations.h"

namespace hawser {

void add_stack(FiberAnnotations* stack, const void* bottom, size_t bytes) {
  *stack = {bottom, bytes, nullptr};
}
void remove_stack(FiberAnnotations*) {}
void leave_stack(FiberAnnotations* from, FiberAnnotations* to) {
  __sanitizer_start_switch_fiber(&from->state, to->bottom, to->bytes);
}
void arrive_on_stack(FiberAnnotations* to, FiberAnnotations* from) {
  __sanitizer_finish_switch_fiber(to->state, &from->bottom, &from->bytes);
}

}  // namespace hawser
