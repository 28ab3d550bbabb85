#include "engine/checkpoint/digest.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace hawser::checkpoint {

struct Digest::State {
  XXH3_state_t xxh;
};

namespace {
std::string hex(XXH128_hash_t hash) {
  return fmt::format("xxh3-128:{:016x}{:016x}", hash.high64, hash.low64);
}
}  // namespace

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Digest::~Digest() = default;

void Digest::add(const void* data, int64_t bytes) {
  if (bytes > 0) XXH3_128bits_update(&state_->xxh, data, static_cast<size_t>(bytes));
}

std::string Digest::text() const { return hex(XXH3_128bits_digest(&state_->xxh)); }

std::string Digest::of(const void* data, int64_t bytes) {
  return hex(XXH3_128bits(data, static_cast<size_t>(bytes)));
}

}  // namespace hawser::checkpoint
