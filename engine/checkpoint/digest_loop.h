// Digest loop: the loops of XXH3, compiled for the baseline and again for each CPU level that at least
// doubles their speed (CMakeLists.txt), because a save reads every byte twice. The interface uses only C
// types, and no inline function that two levels could share.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace hawser::checkpoint {

struct DigestLoop {
  /// Size of a state, which must lie at a multiple of 64.
  static constexpr size_t kBytes = 576;
  void (*begin)(void* state);
  void (*add)(void* state, const void* data, size_t bytes);
  /// Writes the high 64 bits to out[0] and the low 64 bits to out[1].
  void (*end)(const void* state, uint64_t out[2]);
};

/// Returns the loop for this machine; digests do not depend on the choice. The build compiles
/// digest_level_x86.cc or digest_level_generic.cc.
const DigestLoop& digest_loop();

}  // namespace hawser::checkpoint
