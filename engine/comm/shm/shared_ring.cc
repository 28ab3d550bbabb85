#include "engine/comm/shm/shared_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hawser::comm {
namespace {

/// Most bytes of one put or take: so few that the other side begins soon, and that they are still in this
/// core's cache when they are read.
constexpr int64_t kPortion = int64_t{128} << 10;

constexpr int32_t kMostNeighbours = 128;

}  // namespace

int64_t ring_capacity(int32_t world_size) {
  constexpr int64_t kAll = int64_t{8} << 20, kMost = int64_t{512} << 10;
  const auto share = static_cast<uint64_t>(kAll / std::max(1, world_size - 1));
  return std::clamp(static_cast<int64_t>(std::bit_floor(share)), kAll / kMostNeighbours, kMost);
}

int64_t rings_bytes(int32_t world_size) {
  return std::min(world_size - 1, kMostNeighbours) * SharedRing::bytes_of(ring_capacity(world_size));
}

SharedRing::SharedRing(void* memory, int64_t capacity)
    : state_(static_cast<RingState*>(memory)),
      data_(static_cast<char*>(memory) + sizeof(RingState)),
      capacity_(capacity) {}

int64_t SharedRing::free() const {
  const uint64_t taken = written_ - state_->read.load(std::memory_order_seq_cst);
  return static_cast<int64_t>(static_cast<uint64_t>(capacity_) - taken);
}

int64_t SharedRing::waiting() const {
  return static_cast<int64_t>(state_->written.load(std::memory_order_seq_cst) - read_);
}

SharedRing::Moved SharedRing::put(std::span<const iovec> parts) {
  int64_t room = free();
  if (!makes_sense(room)) return {.bytes = -1};
  room = std::min(room, kPortion);
  const uint64_t before = written_;
  for (const iovec& part : parts) {
    const auto* from = static_cast<const char*>(part.iov_base);
    for (auto left = std::min<int64_t>(room, static_cast<int64_t>(part.iov_len)); left > 0;) {
      const auto at = static_cast<int64_t>(written_ % static_cast<uint64_t>(capacity_));
      const int64_t run = std::min(left, capacity_ - at);
      std::memcpy(data_ + at, from, static_cast<size_t>(run));
      from += run, left -= run, room -= run;
      written_ += static_cast<uint64_t>(run);
    }
  }
  if (written_ == before) return {};
  state_->written.store(written_, std::memory_order_seq_cst);
  return {static_cast<int64_t>(written_ - before),
          state_->reader_waits.load(std::memory_order_seq_cst) != 0 &&
              state_->reader_waits.exchange(0, std::memory_order_seq_cst) != 0};
}

SharedRing::Moved SharedRing::take(void* to, int64_t bytes) {
  const int64_t there = waiting();
  if (!makes_sense(there)) return {.bytes = -1};
  int64_t left = std::min({there, bytes, kPortion});
  if (left == 0) return {};
  const int64_t count = left;
  auto* into = static_cast<char*>(to);
  while (left > 0) {
    const auto at = static_cast<int64_t>(read_ % static_cast<uint64_t>(capacity_));
    const int64_t run = std::min(left, capacity_ - at);
    std::memcpy(into, data_ + at, static_cast<size_t>(run));
    into += run, left -= run;
    read_ += static_cast<uint64_t>(run);
  }
  state_->read.store(read_, std::memory_order_seq_cst);
  const auto wanted = static_cast<int64_t>(state_->writer_waits.load(std::memory_order_seq_cst));
  const bool enough = wanted > 0 && capacity_ - (there - count) >= wanted;
  return {count, enough && state_->writer_waits.exchange(0, std::memory_order_seq_cst) != 0};
}

/// The writer sleeps until half of the ring is free, or less if fewer bytes are left, so that the two sides
/// do not wake each other for every portion.
bool SharedRing::writer_sleeps(int64_t bytes) {
  const int64_t wanted = std::min(bytes, capacity_ / 2);
  state_->writer_waits.store(static_cast<uint32_t>(wanted), std::memory_order_seq_cst);
  if (free() < wanted) return true;
  writer_woke();
  return false;
}

bool SharedRing::reader_sleeps() {
  state_->reader_waits.store(1, std::memory_order_seq_cst);
  if (waiting() == 0) return true;
  reader_woke();
  return false;
}

}  // namespace hawser::comm
