// AddressSanitizer knows of each stack where it is, and keeps what replaces parts of it.
#include <sanitizer/common_interface_defs.h>

#include "engine/base/stack_notes.h"

namespace hawser {

void add_stack(StackNotes* stack, const void* bottom, size_t bytes) { *stack = {bottom, bytes, nullptr}; }
void remove_stack(StackNotes*) {}
void leave_stack(StackNotes* from, StackNotes* to) {
  __sanitizer_start_switch_fiber(&from->state, to->bottom, to->bytes);
}
void arrive_on_stack(StackNotes* to, StackNotes* from) {
  __sanitizer_finish_switch_fiber(to->state, &from->bottom, &from->bytes);
}

}  // namespace hawser
