// GroupCall: one transfer of a plan as lists of pieces for a process group, prepared once. Pieces of
// different types take a call each. If the host cannot access the arena, the pieces are in host memory (see
// stage), copied from the arena before the call and back after it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/process_group.h"

namespace hawser::parallel {

struct GroupCall {
  comm::ProcessGroup* group = nullptr;
  int64_t members = 1;  ///< members of the group
  /// Arrays that are summed alike.
  struct Sums {
    comm::Reduction reduction;
    std::vector<comm::ReducePiece> scatter;
    std::vector<comm::AllReducePiece> all;
  };
  Sums sums;
  Sums in_records;  ///< those whose addends are sent in records; the same types in memory
  std::vector<comm::GatherPiece> gather_f32, gather_narrow, gather_bytes;  // by element type
  DType narrow = DType::kF32;
  /// A message between two stages of a pipeline, with the other member of the group. One of `send` and `recv`
  /// is set.
  struct Message {
    char* data = nullptr;
    int64_t bytes = 0;
    int32_t peer = 0;
  } send, recv;

  /// Parts of different sizes for each member, one after the other, and from each; none if `out` is null.
  struct Exchange {
    char* out = nullptr;
    const char* in = nullptr;
    std::vector<int64_t> out_bytes, in_bytes;  // by member
  } exchange;

  /// A copy between arena and staging memory.
  struct Copy {
    void* arena;
    void* host;
    int64_t bytes;
  };
  std::vector<Copy> before, after;  // empty if nothing is staged
};

/// Makes the calls; returns the last one's work, which is done after the others. Allocates nothing.
comm::Work issue(const GroupCall& transfer);

/// Moves all pieces to staging memory at `host` and records the copies. Returns the bytes of staging used.
int64_t stage(GroupCall* transfer, char* host);

}  // namespace hawser::parallel
