#include "engine/checkpoint/block_writer.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/signals_blocked.h"

namespace hawser::checkpoint {

BlockWriter::BlockWriter(File file, int64_t bytes, int64_t block_bytes)
    : file_(std::move(file)),
      block_bytes_(block_bytes),
      memory_(device::Arena::create(bytes > block_bytes ? kBlocks * block_bytes : bytes)) {
  if (bytes <= block_bytes) return;
  file_.set_direct(true);
  start_thread();
}

BlockWriter::~BlockWriter() { stop_thread(); }

void BlockWriter::start_thread() {
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { write_blocks(); });
  } catch (const std::system_error&) {  // append writes the blocks instead
  }
}

void BlockWriter::stop_thread() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  change_.notify_all();
  thread_.join();
}

void BlockWriter::write_blocks() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    change_.wait(lock, [this] { return stopping_ || written_ < handed_; });
    if (written_ == handed_) return;
    const char* const data = block(written_);
    lock.unlock();
    try {
      file_.write(data, block_bytes_);
    } catch (...) {
      const std::lock_guard failed(mutex_);
      error_ = std::current_exception();
      change_.notify_all();
      return;
    }
    lock.lock();
    ++written_;
    change_.notify_all();
  }
}

/// Hands the full block to the thread and waits until there is another block to fill.
void BlockWriter::hand_over() {
  filled_ = 0;
  if (!thread_.joinable()) {
    file_.write(block(handed_++), block_bytes_);
    return;
  }
  std::unique_lock lock(mutex_);
  ++handed_;
  change_.notify_all();
  change_.wait(lock, [this] { return error_ || handed_ - written_ < kBlocks; });
  if (error_) std::rethrow_exception(error_);
}

void BlockWriter::append(const void* data, int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const int64_t n = std::min(bytes, block_bytes_ - filled_);
    HWS_CHECK(filled_ + n <= memory_->bytes());  // not more than announced
    std::memcpy(block(handed_) + filled_, from, static_cast<size_t>(n));
    filled_ += n, from += n, bytes -= n;
    if (filled_ == block_bytes_) hand_over();
  }
}

void BlockWriter::finish() {
  stop_thread();
  if (error_) std::rethrow_exception(error_);
  file_.set_direct(false);  // the rest is not a whole number of sectors
  file_.write(block(handed_), filled_);
  file_.sync();
  file_.close();
}

}  // namespace hawser::checkpoint
