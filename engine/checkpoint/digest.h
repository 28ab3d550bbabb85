// Digest: a 128-bit XXH3 digest of stored data. It detects accidents (flipped bits, torn or swapped files),
// not forgeries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/checkpoint/digest_loop.h"

namespace hawser::checkpoint {

class Digest {
 public:
  Digest();
  void add(const void* data, int64_t bytes);
  std::string text() const;  ///< returns "xxh3-128:" and 32 hex digits
  static std::string of(const void* data, int64_t bytes);

 private:
  const DigestLoop* loop_;
  alignas(64) std::byte state_[DigestLoop::kBytes];
};

}  // namespace hawser::checkpoint
