// Refusing files: a library that a test preloads into the command, so that opening files of a folder fails as
// on a failing disk or with too many open files. HAWSER_REFUSED names the folder (the end of its path),
// HAWSER_REFUSAL is the errno, and HAWSER_REFUSALS the number of failures (default: all).
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string path_of(int fd) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string();
}

bool refuses(int folder) {
  static std::atomic<long> left{
      std::getenv("HAWSER_REFUSALS") != nullptr ? std::atol(std::getenv("HAWSER_REFUSALS")) : 1L << 30};
  const char* const refused = std::getenv("HAWSER_REFUSED");
  if (refused == nullptr || folder == AT_FDCWD || !path_of(folder).ends_with(refused)) return false;
  if (left.fetch_sub(1) <= 0) return false;
  errno = std::atoi(std::getenv("HAWSER_REFUSAL"));
  return true;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  static const auto real = reinterpret_cast<int (*)(int, const char*, int, ...)>(dlsym(RTLD_NEXT, "openat"));
  return refuses(folder) ? -1 : real(folder, path, flags, mode);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_at(folder, path, flags, mode);
}
#pragma GCC visibility pop
