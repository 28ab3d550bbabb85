// Poisoning for AddressSanitizer builds: it reports any access to a slot outside its planned lifetime.
#include <sanitizer/asan_interface.h>

#include "engine/device/arena.h"

namespace hawser::device {

void poison(void* p, int64_t bytes) { __asan_poison_memory_region(p, static_cast<size_t>(bytes)); }
void unpoison(void* p, int64_t bytes) { __asan_unpoison_memory_region(p, static_cast<size_t>(bytes)); }

}  // namespace hawser::device
