// Builds without a sanitizer have nobody to tell.
#include "engine/base/stack_notes.h"

namespace hawser {

void add_stack(StackNotes*, const void*, size_t) {}
void remove_stack(StackNotes*) {}
void leave_stack(StackNotes*, StackNotes*) {}
void arrive_on_stack(StackNotes*, StackNotes*) {}

}  // namespace hawser
