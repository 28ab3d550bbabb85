// The N-th file operation of a save fails, for every N: the save throws, nothing is left behind, what was
// there before still loads, and the next save works. System calls are replaced at link time (--wrap), so that
// this covers whatever engine/checkpoint/file_io.cc does.
#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "engine/checkpoint/checkpoint.h"
#include "tests/checkpoint/scratch.h"

namespace {

struct Fault {
  int countdown = -1;  // calls until one fails; negative: none fails
  int error = 0;
  bool happened = false;
} fault;

bool fails() {
  if (fault.countdown < 0 || fault.countdown-- != 0) return false;
  fault.happened = true;
  errno = fault.error;
  return true;
}

}  // namespace

extern "C" {
ssize_t __real_write(int, const void*, size_t);
int __real_fsync(int);
int __real_mkdir(const char*, mode_t);
int __real_mkdirat(int, const char*, mode_t);
int __real_renameat2(int, const char*, int, const char*, unsigned);

ssize_t __wrap_write(int fd, const void* data, size_t n) {
  if (fails()) {
    if (fault.error != EINTR && n > 1)
      return __real_write(fd, data, n / 2);  // short first; the rest fails if asked again
    return -1;
  }
  return __real_write(fd, data, n);
}
int __wrap_fsync(int fd) { return fails() ? -1 : __real_fsync(fd); }
int __wrap_mkdir(const char* path, mode_t mode) { return fails() ? -1 : __real_mkdir(path, mode); }
int __wrap_mkdirat(int fd, const char* path, mode_t mode) {
  return fails() ? -1 : __real_mkdirat(fd, path, mode);
}
int __wrap_renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  return fails() ? -1 : __real_renameat2(a, from, b, to, flags);
}
}

namespace hawser::checkpoint {
namespace {

TEST(SaveFault, EveryFailingOperationLeavesTheOldAndNothingElse) {
  const Scratch scratch;
  const std::vector<float> weight(100, 1.5f);
  const std::vector<TensorView> tensors = {{"a", DType::kF32, {50}, weight.data()},
                                           {"b", DType::kF32, {100}, weight.data()}};
  Description description;
  description.extra_files["config.json"] = "{}";
  save(scratch / "best", tensors, description, 200);
  int failed = 0;
  for (const int error : {EIO, ENOSPC, EINTR}) {
    for (int n = 0;; ++n) {
      ASSERT_LT(n, 200);
      fault = {n, error, false};
      bool thrown = false;
      try {
        save(scratch / "next", tensors, description, 200);
      } catch (const Error& e) {
        thrown = true;
        EXPECT_FALSE(e.message().empty());
      }
      const bool happened = fault.happened;
      fault = {};
      if (thrown) {
        ++failed;
        EXPECT_EQ(listing(scratch.path()), "best") << "operation " << n;
        Reader::open(scratch / "best")->verify();
      } else {
        Reader::open(scratch / "next")->verify();  // interrupted and short operations are taken up again
        std::filesystem::remove_all(scratch / "next");
      }
      if (!happened) break;
    }
  }
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace hawser::checkpoint
