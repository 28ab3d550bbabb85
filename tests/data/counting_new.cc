// Counting new: an operator new that counts its calls on all threads. It has its own file, because the
// compiler would report an inlined pair of malloc and free as a mismatch.
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
/// clang treats this as an ordinary function, which -fvisibility=hidden would hide from the C++ library.
__attribute__((visibility("default"))) void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
