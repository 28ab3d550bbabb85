// Failing calls: strong definitions of libc's functions, which the dynamic linker finds before libc's, for
// the program and for libstdc++. Allocation calls glibc's __libc_* functions, the others call the next
// definition.
#include "tests/reliability/failing_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

using hawser::testing::Extent;
using hawser::testing::kShort;
using hawser::testing::Operation;

constexpr useconds_t kLaterMicroseconds = 5'000, kMillisecond = 1'000;
constexpr const char* kTasks = "/proc/self/task";

std::atomic<bool> g_armed{false};
Operation g_operation;
int g_error;
long g_nth;
Extent g_extent;
std::atomic<long> g_seen{0};
std::atomic<long> g_blocks{0}, g_mapped{0}, g_json{0};

long pages(size_t bytes) { return static_cast<long>((bytes + 4095) / 4096); }

/// True if this is the operation that fails. `may_stop`: it can be interrupted; `may_be_short`: it can
/// transfer less than requested.
bool fails(Operation operation, bool may_stop = false, bool may_be_short = false) {
  if (!g_armed.load(std::memory_order_acquire) || operation != g_operation) return false;
  if ((g_error == EINTR && !may_stop) || (g_error == kShort && !may_be_short)) return false;
  const long now = g_seen.fetch_add(1, std::memory_order_relaxed) + 1;
  if (now != g_nth && (g_extent == Extent::kOne || g_nth < 1 || now < g_nth)) return false;
  if (now > g_nth && operation == Operation::kUnnamedFile) usleep(kLaterMicroseconds);
  hawser::testing::now_it_fails();
  errno = operation == Operation::kAllocation ? ENOMEM : g_error;
  return true;
}

bool file_fails(bool may_stop = false) { return fails(Operation::kFile, may_stop); }

std::atomic<bool> g_buffered{false};

/// True, with errno set, if direct access is requested and not available.
bool refuses(int flags) {
  if (!g_buffered || (flags & O_DIRECT) == 0) return false;
  errno = EINVAL;
  return true;
}

// The descriptors of files without a name.
constexpr int kDescriptors = 1024;
std::atomic<bool> g_unnamed[kDescriptors];

bool is_unnamed(int fd) { return fd >= 0 && fd < kDescriptors && g_unnamed[fd]; }

int note_opened(int fd, bool unnamed) {
  if (fd >= 0 && fd < kDescriptors) g_unnamed[fd] = unnamed;
  return fd;
}

/// True if this operation on the file fails. `unnamed`: the file has no name.
bool fails_on(bool unnamed, bool may_stop, bool may_be_short = false) {
  return fails(Operation::kFile, may_stop, may_be_short) ||
         (unnamed && fails(Operation::kUnnamedFile, may_stop, may_be_short));
}

/// Returns the bytes of a short transfer of n bytes; 0 if the transfer cannot be short.
size_t fewer(int fd, size_t n) {
  const bool in_pages = is_unnamed(fd) && (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
  return in_pages ? n / 2 / 4096 * 4096 : n / 2;
}

/// Calls transfer(bytes), which reads or writes n bytes of a file, unless the operation fails.
template <typename Transfer>
ssize_t transfer_or_fail(int fd, size_t n, const Transfer& transfer) {
  const size_t few = g_armed ? fewer(fd, n) : 0;
  if (!fails_on(is_unnamed(fd), true, few > 0)) return transfer(n);
  return g_error == kShort ? transfer(few) : -1;
}

void* counted(void* p) {
  if (p != nullptr) g_blocks.fetch_add(1, std::memory_order_relaxed);
  return p;
}

template <typename Fn>
Fn next(const char* name) {
  return reinterpret_cast<Fn>(dlsym(RTLD_NEXT, name));
}
#define NEXT(function) static const auto real = next<decltype(&::function)>(#function)

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// ---------------------------------------------------------------------------------------------------- memory

void* malloc(size_t n) { return fails(Operation::kAllocation) ? nullptr : counted(__libc_malloc(n)); }
void* calloc(size_t n, size_t size) {
  return fails(Operation::kAllocation) ? nullptr : counted(__libc_calloc(n, size));
}
void* realloc(void* p, size_t n) {
  if (fails(Operation::kAllocation)) return nullptr;
  void* const to = __libc_realloc(p, n);
  if (p == nullptr) return counted(to);
  if (n == 0) g_blocks.fetch_sub(1, std::memory_order_relaxed);
  return to;
}
void* aligned_alloc(size_t alignment, size_t n) {
  return fails(Operation::kAllocation) ? nullptr : counted(__libc_memalign(alignment, n));
}
int posix_memalign(void** out, size_t alignment, size_t n) {
  if (fails(Operation::kAllocation)) return ENOMEM;
  *out = counted(__libc_memalign(alignment, n));
  return *out == nullptr ? ENOMEM : 0;
}
void free(void* p) {
  if (p != nullptr) g_blocks.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(p);
}

void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) noexcept {
  NEXT(mmap);
  if (fails((flags & MAP_ANONYMOUS) != 0 ? Operation::kAllocation : Operation::kFile)) return MAP_FAILED;
  void* const p = real(at, n, protection, flags, fd, offset);
  if (p != MAP_FAILED) g_mapped.fetch_add(pages(n), std::memory_order_relaxed);
  return p;
}
int munmap(void* at, size_t n) noexcept {
  NEXT(munmap);
  g_mapped.fetch_sub(pages(n), std::memory_order_relaxed);
  return real(at, n);
}

// These wrap the allocation of JSON values and containers (engine/base/json.h) at link time.
void* __real__ZN6hawser13allocate_jsonEm(size_t bytes);
void __real__ZN6hawser9free_jsonEPv(void* p);
void* __real__ZN6hawser23allocate_json_containerEv();
void __real__ZN6hawser19free_json_containerEPv(void* p);
void* __wrap__ZN6hawser13allocate_jsonEm(size_t bytes) {
  void* const p = __real__ZN6hawser13allocate_jsonEm(bytes);
  g_json.fetch_add(1, std::memory_order_relaxed);
  return p;
}
void __wrap__ZN6hawser9free_jsonEPv(void* p) {
  g_json.fetch_sub(1, std::memory_order_relaxed);
  __real__ZN6hawser9free_jsonEPv(p);
}
void* __wrap__ZN6hawser23allocate_json_containerEv() {
  void* const p = __real__ZN6hawser23allocate_json_containerEv();
  g_json.fetch_add(1, std::memory_order_relaxed);
  return p;
}
void __wrap__ZN6hawser19free_json_containerEPv(void* p) {
  g_json.fetch_sub(1, std::memory_order_relaxed);
  __real__ZN6hawser19free_json_containerEPv(p);
}

// ----------------------------------------------------------------------------------------------------- files

int open(const char* path, int flags, ...) {
  NEXT(open);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  if (refuses(flags) || fails_on(unnamed, true)) return -1;
  return note_opened(real(path, flags, mode), unnamed);
}
/// Its callers remove the name at once.
int mkostemp(char* name, int flags) {
  NEXT(mkostemp);
  if (refuses(flags) || fails_on(true, true)) return -1;
  return note_opened(real(name, flags), true);
}
int fallocate(int fd, int mode, off_t offset, off_t n) {
  NEXT(fallocate);
  return fails_on(is_unnamed(fd), true) ? -1 : real(fd, mode, offset, n);
}
int ftruncate(int fd, off_t n) noexcept {
  NEXT(ftruncate);
  return fails_on(is_unnamed(fd), true) ? -1 : real(fd, n);
}
int fstatvfs(int fd, struct statvfs* disk) noexcept {
  NEXT(fstatvfs);
  return fails_on(is_unnamed(fd), true) ? -1 : real(fd, disk);
}
int openat(int folder, const char* path, int flags, ...) {
  NEXT(openat);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return file_fails(true) ? -1 : note_opened(real(folder, path, flags, mode), false);
}
FILE* fopen(const char* path, const char* mode) {
  NEXT(fopen);
  return file_fails() ? nullptr : real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  NEXT(fopen64);
  return file_fails() ? nullptr : real(path, mode);
}
ssize_t read(int fd, void* data, size_t n) {
  NEXT(read);
  return transfer_or_fail(fd, n, [&](size_t bytes) { return real(fd, data, bytes); });
}
ssize_t pread(int fd, void* data, size_t n, off_t offset) {
  NEXT(pread);
  return transfer_or_fail(fd, n, [&](size_t bytes) { return real(fd, data, bytes, offset); });
}
ssize_t write(int fd, const void* data, size_t n) {
  NEXT(write);
  return transfer_or_fail(fd, n, [&](size_t bytes) { return real(fd, data, bytes); });
}
ssize_t pwrite(int fd, const void* data, size_t n, off_t offset) {
  NEXT(pwrite);
  return transfer_or_fail(fd, n, [&](size_t bytes) { return real(fd, data, bytes, offset); });
}
int fsync(int fd) {
  NEXT(fsync);
  return file_fails(true) ? -1 : real(fd);
}
int flock(int fd, int operation) {
  using Flock = int (*)(int, int);
  static const auto real = next<Flock>("flock");
  return file_fails(true) ? -1 : real(fd, operation);
}
int fstat(int fd, struct stat* status) noexcept {
  using Fstat = int (*)(int, struct stat*);
  static const auto real = next<Fstat>("fstat");
  return file_fails() ? -1 : real(fd, status);
}
int mkdir(const char* path, mode_t mode) noexcept {
  NEXT(mkdir);
  return file_fails() ? -1 : real(path, mode);
}
int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  NEXT(mkdirat);
  return file_fails() ? -1 : real(folder, path, mode);
}
int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  return file_fails() ? -1 : real(from, to);
}
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) noexcept {
  NEXT(renameat2);
  return file_fails() ? -1 : real(a, from, b, to, flags);
}
DIR* fdopendir(int fd) {
  NEXT(fdopendir);
  return file_fails() ? nullptr : real(fd);
}

// --------------------------------------------------------------------------------------------------- threads

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*main)(void*),
                   void* argument) noexcept {
  NEXT(pthread_create);
  return fails(Operation::kThread) ? EAGAIN : real(thread, attributes, main, argument);
}
}
#pragma GCC visibility pop

namespace hawser::testing {
namespace {

long entries(const char* folder) {
  long count = 0;
  DIR* const listing = opendir(folder);
  if (listing == nullptr) return -1;
  while (readdir(listing) != nullptr) ++count;
  closedir(listing);
  return count;
}

}  // namespace

[[gnu::noinline]] void now_it_fails() { asm volatile(""); }

FailAt::FailAt(Operation operation, int error, long nth, Extent extent) : nth_(nth) {
  g_operation = operation;
  g_extent = extent;
  g_error = error;
  g_nth = nth;
  g_seen = 0;
  g_armed.store(true, std::memory_order_release);
}

FailAt::~FailAt() { g_armed = false; }

long FailAt::seen() const { return g_seen; }

NoDirectAccess::NoDirectAccess() { g_buffered = true; }
NoDirectAccess::~NoDirectAccess() { g_buffered = false; }

Held held() {
  Held now;
  now.threads = entries(kTasks);  // first: a thread that ends meanwhile still releases memory
  now.files = entries("/proc/self/fd");
  now.blocks = g_blocks, now.json = g_json, now.pages = g_mapped;
  return now;
}

long idle_threads() {
  constexpr int kSame = 50;
  long threads = entries(kTasks);
  for (int same = 0; same < kSame; ++same) {
    usleep(kMillisecond);
    if (const long now = entries(kTasks); now != threads) threads = now, same = 0;
  }
  return threads;
}

Held held_when_idle(long idle) {
  Held now = held();
  for (int i = 0; i < 2000 && now.threads > idle; ++i) {
    usleep(kMillisecond);
    now = held();
  }
  return now;
}

}  // namespace hawser::testing
