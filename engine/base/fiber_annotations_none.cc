// Fiber-switch annotations for builds without a sanitizer: they do nothing.
#include "engine/base/fiber_annotations.h"

namespace hawser {

void add_stack(FiberAnnotations*, const void*, size_t) {}
void remove_stack(FiberAnnotations*) {}
void leave_stack(FiberAnnotations*, FiberAnnotations*) {}
void arrive_on_stack(FiberAnnotations*, FiberAnnotations*) {}

}  // namespace hawser
