// OffloadStore: the space outside the arena to which OFFLOAD copies and from which FETCH copies back. Each
// rank has its own, of the size that the plan gives.
#pragma once

#include <cstdint>

#include "engine/plan/instruction.h"

namespace hawser::parallel {

/// Direct access to a disk requires memory, offsets and bytes at multiples of this.
inline constexpr int64_t kOffloadPage = 4096;

/// Copies of a lane (kOffload, kFetch) complete in the order in which they were started; tickets count them
/// from 1. Calls allocate nothing. One thread at a time.
class OffloadStore {
 public:
  virtual ~OffloadStore() = default;

  /// Starts copying memory[bytes] to byte `at` of the space (kOffload), or back (kFetch), after the work
  /// submitted to the compute lane so far. `memory` and `at` are multiples of kOffloadPage.
  virtual uint64_t start(plan::Lane lane, char* memory, int64_t at, int64_t bytes) = 0;
  /// Orders later work of the compute lane, and copies that are started from now on, after this copy and the
  /// earlier copies of its lane. Throws the errors so far.
  virtual void follow(plan::Lane lane, uint64_t ticket) = 0;
  /// Waits for this copy and the earlier copies of its lane. Throws kIo for a disk that failed, and a
  /// device's errors.
  virtual void wait(plan::Lane lane, uint64_t ticket) = 0;

  /// The time of a copy, in seconds of the steady clock. Available for the last `most` copies of its lane
  /// (`most` as at construction).
  struct Span {
    double begin = 0, end = 0;
  };
  virtual Span span(plan::Lane lane, uint64_t ticket) const = 0;
};

}  // namespace hawser::parallel
