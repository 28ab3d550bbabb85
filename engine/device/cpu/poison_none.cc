// Poisoning for builds without AddressSanitizer: slots are not guarded.
#include "engine/device/arena.h"

namespace hawser::device {

void poison(void*, int64_t) {}
void unpoison(void*, int64_t) {}

}  // namespace hawser::device
