// GroupCall: one transfer of a plan as pieces for a process group, made once. Where the
// host cannot reach the arena, the pieces lie in host memory instead (stage), and are copied out of the arena
// before the call and back into it after it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/process_group.h"

namespace hawser::parallel {

struct GroupCall {
  comm::ProcessGroup* group = nullptr;
  int64_t members = 1;  ///< of the group
  std::vector<comm::ReducePiece> reduce;
  std::vector<comm::AllReducePiece> all_reduce;
  std::vector<comm::GatherPiece> gather_f32, gather_narrow;  // by the type of their elements
  DType narrow = DType::kF32;
  comm::Reduction reduction;

  /// Between arena and staging.
  struct Copy {
    void* arena;
    void* host;
    int64_t bytes;
  };
  std::vector<Copy> before, after;  // empty where nothing is staged
};

/// Calls the group. Allocates nothing.
comm::Work issue(const GroupCall& transfer);

/// Moves all pieces to staging at `host`, and notes what is copied. Returns the bytes of staging that it
/// takes.
int64_t stage(GroupCall* transfer, char* host);

}  // namespace hawser::parallel
