// BlockWriter test: a file written in blocks on its own thread has the given bytes, with direct writes or
// without; errors of the thread reach the caller.
#include "engine/checkpoint/block_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>

#include <atomic>
#include <string>

#include "engine/base/error.h"
#include "tests/checkpoint/scratch.h"

namespace {

std::atomic<bool> g_refuses_direct{false};
std::atomic<int> g_fails_in{-1}, g_direct_writes{0};

}  // namespace

extern "C" {
ssize_t __real_write(int, const void*, size_t);

ssize_t __wrap_write(int fd, const void* data, size_t n) {
  if (g_fails_in >= 0 && g_fails_in-- == 0) return errno = ENOSPC, -1;
  if ((fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
    if (g_refuses_direct) return errno = EINVAL, -1;
    ++g_direct_writes;
  }
  return __real_write(fd, data, n);
}
}

namespace hawser::checkpoint {
namespace {

constexpr int64_t kBlock = 8192;

class BlockWriterTest : public ::testing::Test {
 protected:
  ~BlockWriterTest() override { g_refuses_direct = false, g_fails_in = -1; }

  /// Writes `bytes` bytes in parts of `part`.
  void write(int64_t bytes, int64_t part) {
    text_.clear();
    for (int64_t i = 0; i < bytes; ++i) text_ += static_cast<char>(i * i % 251);
    BlockWriter writer(folder_.create_file(name_ = "file-" + std::to_string(++files_)), bytes, kBlock);
    for (int64_t at = 0; at < bytes; at += part) writer.append(text_.data() + at, std::min(part, bytes - at));
    writer.finish();
  }
  void expect_whole() const { EXPECT_TRUE(folder_.read_file(name_, 1 << 20) == text_) << name_; }

  const Scratch scratch_;
  const Folder folder_ = Folder::open(scratch_.path());
  int files_ = 0;
  std::string name_, text_;
};

TEST_F(BlockWriterTest, AllBytesAreThereInOrder) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock,
                              7 * kBlock + 4096, 20 * kBlock + 4097})
    for (const int64_t part : {int64_t{777}, kBlock, 3 * kBlock + 5}) {
      write(bytes, part);
      expect_whole();
    }
}

TEST_F(BlockWriterTest, AFileSystemMayRefuseToGoPastTheCache) {
  g_direct_writes = 0;
  g_refuses_direct = true;
  write(5 * kBlock + 3, 1000);
  expect_whole();
  EXPECT_EQ(g_direct_writes, 0);
}

/// The error may occur at any write, and the thread ends: the test's folder is removed while nothing uses it.
TEST_F(BlockWriterTest, WhatAWriteFailsWithIsThrownToWhoGaveTheBytes) {
  for (int nth = 0; nth < 6; ++nth) {
    g_fails_in = nth;
    try {
      write(5 * kBlock + 3, 1000);
      ADD_FAILURE() << "write " << nth << " failed, and nothing was said";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kIo);
      EXPECT_NE(error.message().find("No space left"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(name_), std::string::npos) << error.message();
    }
    EXPECT_EQ(g_fails_in, -1);
  }
}

}  // namespace
}  // namespace hawser::checkpoint
