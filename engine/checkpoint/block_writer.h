// Writes one file front to back in large blocks, on a thread of its own, so that its caller does not wait
// for the disk. Whole blocks bypass the page cache if the file system can do that: a copy into the cache
// would take more processor time than the rest of a save.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/checkpoint/file_io.h"
#include "engine/device/arena.h"

namespace hawser::checkpoint {

class BlockWriter {
 public:
  static constexpr int64_t kBlockBytes = int64_t{4} << 20;

  /// `file` is new, and will get `bytes` bytes. The caller's thread writes a file of one block, and any file
  /// for which no thread can start, which is slower. The thread has the caller's priority, takes none of the
  /// host's signals and ends with the file. Throws kOutOfMemory.
  BlockWriter(File file, int64_t bytes, int64_t block_bytes = kBlockBytes);
  /// Waits for the running write. The caller abandons a file that was not finished.
  ~BlockWriter();
  BlockWriter(const BlockWriter&) = delete;
  BlockWriter& operator=(const BlockWriter&) = delete;

  /// Copies the next bytes. Throws kIo or kOutOfMemory if writing these or earlier bytes failed.
  void append(const void* data, int64_t bytes);
  /// Call it after the last byte: flushes everything to disk and closes the file. Throws as append.
  void finish();

 private:
  static constexpr int64_t kBlocks = 3;  // one is filled, one written, one between them
  char* block(int64_t number) const { return memory_->data() + number % kBlocks * block_bytes_; }
  void start_thread();
  void stop_thread() noexcept;
  void write_blocks() noexcept;
  void hand_over();

  File file_;
  const int64_t block_bytes_;
  std::shared_ptr<device::Arena> memory_;
  int64_t filled_ = 0;  // bytes of the block that is being filled

  std::thread thread_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable change_;
  int64_t handed_ = 0, written_ = 0;  // whole blocks
  bool stopping_ = false;
  std::exception_ptr error_;  // the thread's; it writes no more then
};

}  // namespace hawser::checkpoint
