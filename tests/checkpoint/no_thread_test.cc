// No-thread test: if no thread can be started, the caller's thread writes the file.
#include <errno.h>
#include <pthread.h>

#include "engine/checkpoint/block_writer.h"
#include "tests/checkpoint/scratch.h"

namespace {

int g_refused = 0;

}  // namespace

// This definition precedes the C library's, also for the C++ library.
#pragma GCC visibility push(default)
extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) noexcept {
  ++g_refused;
  return EAGAIN;
}
#pragma GCC visibility pop

namespace hawser::checkpoint {
namespace {

TEST(NoThread, TheCallerWritesTheFileItself) {
  const Scratch scratch;
  const Folder folder = Folder::open(scratch.path());
  const std::string text(100'001, 'x');
  BlockWriter writer(folder.create_file("file"), static_cast<int64_t>(text.size()), 8192);
  for (const char byte : text) writer.append(&byte, 1);
  writer.finish();
  EXPECT_EQ(g_refused, 1);
  EXPECT_TRUE(folder.read_file("file", 1 << 20) == text);
}

}  // namespace
}  // namespace hawser::checkpoint
