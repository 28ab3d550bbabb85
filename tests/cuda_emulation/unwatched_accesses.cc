// Unwatched accesses: the functions that kernels compiled with -fsanitize=thread call before each access, for
// programs without the race detector (race_detector.cc defines the others). A build with a sanitizer does not
// need them, because it compiles kernels without these calls.
#include <cstdint>

#define HWS_ACCESS(bytes)                     \
  void __tsan_read##bytes(void*) {}           \
  void __tsan_write##bytes(void*) {}          \
  void __tsan_unaligned_read##bytes(void*) {} \
  void __tsan_unaligned_write##bytes(void*) {}

extern "C" {
HWS_ACCESS(1)
HWS_ACCESS(2)
HWS_ACCESS(4)
HWS_ACCESS(8)
HWS_ACCESS(16)
void __tsan_read_range(void*, uintptr_t) {}
void __tsan_write_range(void*, uintptr_t) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
