// OffloadStore: copies between the arena and a space outside it, for OFFLOAD and FETCH. Each rank has one for
// activations and one for state, so that neither waits behind the other.
#pragma once

#include <cstdint>

#include "engine/plan/instruction.h"

namespace hawser::parallel {

/// Direct access to a disk requires memory, offsets and bytes at multiples of this.
inline constexpr int64_t kOffloadPage = 4096;
inline int64_t whole_pages(int64_t bytes) { return (bytes + kOffloadPage - 1) / kOffloadPage * kOffloadPage; }

/// Memory outside the arena, as the host reads and writes it when no step runs.
class OutsideMemory {
 public:
  virtual ~OutsideMemory() = default;
  // Bytes [at, at + bytes) of the space. Complete when they return.

  virtual void read(int64_t at, void* to, int64_t bytes) = 0;
  virtual void write(int64_t at, const void* from, int64_t bytes) = 0;

  /// True if a snapshot keeps the persistent state of one moment, which another thread reads while steps go
  /// on.
  virtual bool has_snapshots() const { return false; }
  virtual void begin_snapshot() {}
  virtual void read_snapshot(int64_t /*at*/, void* /*to*/, int64_t /*bytes*/) {}
  /// Any thread may call it.
  virtual void end_snapshot() {}
};

/// Copies of a direction complete in the order in which they were started; tickets count them from 1. Calls
/// allocate nothing. One thread at a time.
class OffloadStore {
 public:
  enum class Way : uint8_t { kOut, kIn };
  /// The direction of a lane that moves cargo.
  static Way way_of(plan::Lane lane) {
    return lane == plan::kCargoLanes[static_cast<size_t>(plan::cargo_of(lane))].in ? Way::kIn : Way::kOut;
  }
  virtual ~OffloadStore() = default;

  /// Starts copying memory[bytes] to byte `at` of the space (kOut), or back (kIn), after the work submitted
  /// to the compute lane so far. `memory` and `at` are multiples of kOffloadPage.
  virtual uint64_t start(Way way, char* memory, int64_t at, int64_t bytes) = 0;
  /// Orders later work of the compute lane, and copies that are started from now on, after this copy and the
  /// earlier copies of its direction. Throws the errors so far.
  virtual void follow(Way way, uint64_t ticket) = 0;
  /// Waits for this copy and the earlier copies of its direction. Throws kIo for a disk that failed, and a
  /// device's errors.
  virtual void wait(Way way, uint64_t ticket) = 0;
  /// Throws the error of a copy that has already failed, as wait does, but does not wait.
  virtual void throw_failure() = 0;

  /// The time of a copy, in seconds of the steady clock. Available for the last `most` copies of its
  /// direction (`most` as at construction).
  struct Span {
    double begin = 0, end = 0;
  };
  virtual Span span(Way way, uint64_t ticket) const = 0;
};

}  // namespace hawser::parallel
