// Digest loop: compiled once per CPU level; HAWSER_DIGEST_LEVEL is the namespace.
#include "engine/checkpoint/digest_loop.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace hawser::checkpoint::HAWSER_DIGEST_LEVEL {
namespace {

static_assert(sizeof(XXH3_state_t) == DigestLoop::kBytes && alignof(XXH3_state_t) <= 64);

void begin(void* state) { XXH3_128bits_reset(static_cast<XXH3_state_t*>(state)); }

void add(void* state, const void* data, size_t bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), data, bytes);
}

void end(const void* state, uint64_t out[2]) {
  const XXH128_hash_t hash = XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state));
  out[0] = hash.high64;
  out[1] = hash.low64;
}

}  // namespace

extern const DigestLoop kLoop;
const DigestLoop kLoop = {begin, add, end};

}  // namespace hawser::checkpoint::HAWSER_DIGEST_LEVEL
