// operator new that counts its calls on all threads. A file of its own: inlined into a caller, the pair of
// malloc and free looks to the compiler like a mismatch.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

std::atomic<int64_t> operator_new_calls{0};

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++operator_new_calls;
  return std::malloc(bytes > 0 ? bytes : 1);
}
void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
/// To clang this is an ordinary function, which -fvisibility=hidden would hide from the C++ library.
__attribute__((visibility("default"))) void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
