#include "tests/harness/file_faults.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace {

std::mutex g_mutex;
std::condition_variable g_change;
bool g_held = false;  // guarded by g_mutex
std::thread::id g_holder;
std::atomic<hawser::testing::Fault> g_fault{hawser::testing::Fault::kNone};

using hawser::testing::Fault;

bool fails(Fault fault, int error) {
  if (g_fault != fault) return false;
  errno = error;
  return true;
}

}  // namespace

extern "C" {
ssize_t __real_write(int, const void*, size_t);
int __real_fsync(int);
int __real_mkdir(const char*, mode_t);
int __real_mkdirat(int, const char*, mode_t);

ssize_t __wrap_write(int fd, const void* data, size_t n) {
  if (n > 1 && g_fault == Fault::kDiskFull) return __real_write(fd, data, n / 2);  // this part still fits
  return fails(Fault::kDiskFull, ENOSPC) ? -1 : __real_write(fd, data, n);
}
int __wrap_fsync(int fd) {
  {
    std::unique_lock lock(g_mutex);
    g_change.wait(lock, [] { return !g_held || g_holder == std::this_thread::get_id(); });
  }
  return __real_fsync(fd);
}
int __wrap_mkdir(const char* path, mode_t mode) {
  return fails(Fault::kReadOnly, EROFS) ? -1 : __real_mkdir(path, mode);
}
int __wrap_mkdirat(int folder, const char* name, mode_t mode) {
  return fails(Fault::kReadOnly, EROFS) ? -1 : __real_mkdirat(folder, name, mode);
}
}

namespace hawser::testing {

HeldDisk::HeldDisk() {
  const std::lock_guard lock(g_mutex);
  g_held = true;
  g_holder = std::this_thread::get_id();
}

HeldDisk::~HeldDisk() {
  const std::lock_guard lock(g_mutex);
  g_held = false;
  g_change.notify_all();
}

FaultyDisk::FaultyDisk(Fault fault) { g_fault = fault; }
FaultyDisk::~FaultyDisk() { g_fault = Fault::kNone; }

}  // namespace hawser::testing
