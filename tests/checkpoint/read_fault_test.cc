// Read fault test: the N-th operation of reading fails, for every N. A checkpoint that cannot be read must
// not count as damaged: the result is the right checkpoint, or an error that names the file, never an older
// checkpoint, and nothing is removed. System calls are replaced at link time (--wrap), so this covers
// everything that engine/checkpoint/file_io.cc does.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <functional>

#include "engine/checkpoint/checkpoint.h"
#include "tests/checkpoint/planted_fault.h"
#include "tests/checkpoint/sample.h"
#include "tests/checkpoint/scratch.h"

using hawser::checkpoint::fails;

extern "C" {
int __real_open(const char*, int, ...);
int __real_openat(int, const char*, int, ...);
ssize_t __real_pread(int, void*, size_t, off_t);
int __real_fstat(int, struct stat*);
int __real_fstatat(int, const char*, struct stat*, int);
int __real_lstat(const char*, struct stat*);
dirent* __real_readdir(DIR*);

mode_t mode_of(int flags, va_list* list) { return (flags & O_CREAT) != 0 ? va_arg(*list, mode_t) : 0; }

int __wrap_open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, &list);
  va_end(list);
  return fails() ? -1 : __real_open(path, flags, mode);
}
int __wrap_openat(int fd, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, &list);
  va_end(list);
  return fails() ? -1 : __real_openat(fd, path, flags, mode);
}
ssize_t __wrap_pread(int fd, void* data, size_t n, off_t at) {
  return fails() ? -1 : __real_pread(fd, data, n, at);
}
int __wrap_fstat(int fd, struct stat* status) { return fails() ? -1 : __real_fstat(fd, status); }
int __wrap_fstatat(int fd, const char* path, struct stat* status, int flags) {
  return fails() ? -1 : __real_fstatat(fd, path, status, flags);
}
int __wrap_lstat(const char* path, struct stat* status) { return fails() ? -1 : __real_lstat(path, status); }
dirent* __wrap_readdir(DIR* dir) { return fails() ? nullptr : __real_readdir(dir); }
}

namespace hawser::checkpoint {
namespace {

/// Creates step-1, step-2 (damaged), step-3 and, at step 2, best, before any operation fails.
class ReadFault : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const int64_t step : {1, 2, 3}) save_at("step-" + std::to_string(step), step);
    save_at("best", 2);
  }
  void TearDown() override { fault = {}; }

  void save_at(const std::string& name, int64_t step) {
    const Sample sample(step);
    save(scratch_ / name, sample.tensors, sample.description);
  }

  /// Runs `call` while its N-th operation fails, for every N. Returns how many runs ended in an error; no
  /// such error may report damage, and each must name the folder.
  int let_each_operation_fail(const std::function<void()>& call) {
    int failed = 0;
    for (const int error : {EIO, EMFILE, EACCES, ENOMEM, ESTALE}) {
      for (int n = 0;; ++n) {
        fault = {n, error, false};
        try {
          call();
        } catch (const Error& e) {
          ++failed;
          EXPECT_FALSE(is_damage(e)) << n << ": " << e.message();
          EXPECT_NE(e.code(), Code::kNotFound) << n << ": " << e.message();
          EXPECT_NE(e.message().find(scratch_.path()), std::string::npos) << e.message();
        }
        const bool happened = fault.happened;
        fault = {};
        EXPECT_EQ(listing(scratch_.path()), kAll) << n;
        if (!happened) break;
      }
    }
    return failed;
  }

  static constexpr const char* kAll = "LATEST best step-1 step-2 step-3";
  Scratch scratch_;
};

TEST_F(ReadFault, TheNewestIsNeverAnOlderOne) {
  const int failed = let_each_operation_fail(
      [&] { EXPECT_EQ(newest_valid(scratch_.path(), nullptr), scratch_ / "step-3"); });
  EXPECT_GT(failed, 100);
}

TEST_F(ReadFault, NoCheckpointIsTakenForNone) {
  const int failed = let_each_operation_fail([&] { EXPECT_TRUE(is_checkpoint(scratch_ / "step-3")); });
  EXPECT_GE(failed, 5);
}

TEST_F(ReadFault, RetainRemovesNothing) {
  // Two damaged checkpoints and an older valid one must all stay. If the valid one were mistaken for damaged,
  // it would be removed.
  std::filesystem::resize_file(scratch_ / "step-3/tensors-00001-of-00001.safetensors", 100);
  std::filesystem::resize_file(scratch_ / "step-2/tensors-00001-of-00001.safetensors", 100);
  const int failed = let_each_operation_fail([&] { retain(scratch_.path(), 2); });
  EXPECT_GT(failed, 100);
}

}  // namespace
}  // namespace hawser::checkpoint
