// BlockWriter: a writer that writes one file front to back in large blocks on its own thread, so that the
// caller does not wait for the disk. Full blocks bypass the page cache if the file system allows it: copying
// into the cache would take more CPU time than the rest of a save.
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

  /// `file` is new and will have `bytes` bytes. The thread has the caller's priority, receives no signals and
  /// ends with the file. The caller's thread writes a file of one block; it also writes the file if no thread
  /// can be started, which is slower. Throws kOutOfMemory.
  BlockWriter(File file, int64_t bytes, int64_t block_bytes = kBlockBytes);
  /// Waits for the write in progress. If finish was not called, the caller must abandon the file.
  ~BlockWriter();
  BlockWriter(const BlockWriter&) = delete;
  BlockWriter& operator=(const BlockWriter&) = delete;

  /// Copies the next bytes. Throws kIo or kOutOfMemory if writing these or earlier bytes failed.
  void append(const void* data, int64_t bytes);
  /// Flushes everything to disk and closes the file; call it after the last byte. Throws as append does.
  void finish();

 private:
  static constexpr int64_t kBlocks = 3;  // one being filled, one being written, one in between
  char* block(int64_t number) const { return memory_->data() + number % kBlocks * block_bytes_; }
  void start_thread();
  void stop_thread() noexcept;
  void write_blocks() noexcept;
  void hand_over();

  File file_;
  const int64_t block_bytes_;
  std::shared_ptr<device::Arena> memory_;
  int64_t filled_ = 0;  // bytes in the block being filled

  std::thread thread_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable change_;
  int64_t handed_ = 0, written_ = 0;  // blocks handed over, and blocks written
  bool stopping_ = false;
  std::exception_ptr error_;  // error of the thread, which then stops writing
};

}  // namespace hawser::checkpoint
