#include "engine/checkpoint/digest.h"

#include <fmt/format.h>

namespace hawser::checkpoint {

Digest::Digest() : loop_(&digest_loop()) { loop_->begin(state_); }

void Digest::add(const void* data, int64_t bytes) {
  if (bytes > 0) loop_->add(state_, data, static_cast<size_t>(bytes));
}

std::string Digest::text() const {
  uint64_t halves[2];
  loop_->end(state_, halves);
  return fmt::format("xxh3-128:{:016x}{:016x}", halves[0], halves[1]);
}

std::string Digest::of(const void* data, int64_t bytes) {
  Digest digest;
  digest.add(data, bytes);
  return digest.text();
}

}  // namespace hawser::checkpoint
