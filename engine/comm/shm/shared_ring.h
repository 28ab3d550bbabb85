// SharedRing: a stream of bytes from one process to another of the same host, through memory that both have
// mapped. One process writes the ring, the other reads it. No call waits. A side that is about to sleep sets
// a flag in the ring; put or take then reports to the other side that it must wake this one.
//
// Counts of bytes grow without end; a byte's place in the ring is its count modulo the capacity. Each side
// checks the other side's count, because the other process could have overwritten it.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>

namespace hawser::comm {

/// The beginning of a ring in shared memory; its bytes follow. Each field has its own cache line, because
/// one side writes it often. All fields are zero at first.
struct RingState {
  alignas(64) std::atomic<uint64_t> written;       ///< bytes put so far
  alignas(64) std::atomic<uint64_t> read;          ///< bytes taken so far
  alignas(64) std::atomic<uint32_t> reader_waits;  ///< 1: the reader sleeps until there are bytes
  alignas(64) std::atomic<uint32_t> writer_waits;  ///< the writer sleeps until so many bytes are free; 0: no
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

/// Returns the capacity of each ring of a rank in a world of this size: a power of two. All rings that
/// the rank writes in a lane have at most 8 MiB together, if at most 128 other ranks are on its host.
int64_t ring_capacity(int32_t world_size);
/// Returns the bytes of all rings that a rank writes in a lane, if at most 128 other ranks are on its host.
int64_t rings_bytes(int32_t world_size);

class SharedRing {
 public:
  /// `memory` has bytes_of(capacity) bytes, aligned to a cache line. `capacity` is a power of two.
  SharedRing(void* memory, int64_t capacity);
  static constexpr int64_t bytes_of(int64_t capacity) { return int64_t{sizeof(RingState)} + capacity; }

  /// The bytes that a call moved, and whether the caller must now wake the other side.
  struct Moved {
    int64_t bytes = 0;  ///< -1: the other side's count makes no sense
    bool wakes = false;
  };

  // The writer calls the following functions.
  Moved put(std::span<const iovec> parts);
  /// Announces that the writer sleeps until it can put up to `bytes` bytes. Returns false if it can already.
  bool writer_sleeps(int64_t bytes);
  void writer_woke() { state_->writer_waits.store(0, std::memory_order_relaxed); }

  // The reader calls the following functions.
  Moved take(void* to, int64_t bytes);
  /// Announces that the reader sleeps until there are bytes. Returns false if there are some already.
  bool reader_sleeps();
  void reader_woke() { state_->reader_waits.store(0, std::memory_order_relaxed); }

 private:
  /// Both are below 0 or above the capacity if the other side's count makes no sense.
  int64_t free() const;
  int64_t waiting() const;
  bool makes_sense(int64_t bytes) const { return bytes >= 0 && bytes <= capacity_; }

  RingState* const state_;
  char* const data_;
  const int64_t capacity_;
  uint64_t written_ = 0, read_ = 0;  ///< this side's own count
};

}  // namespace hawser::comm
