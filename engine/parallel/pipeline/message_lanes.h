// The lanes in which a rank exchanges messages with ranks of other stages of a pipeline: with whom, and under
// which name.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/mesh/mesh.h"
#include "engine/parallel/shard_layout.h"

namespace hawser::parallel::pipeline {

struct MessageLane {
  plan::Lane lane;
  comm::GroupRequest group;  ///< this rank and the other one, in a lane of the comm that is theirs
};

/// Those that the rank's plans use; of an empty plan none. Two ranks connect when both make their group. All
/// ranks make theirs by name, so no circle of ranks waits, each for the next.
std::vector<MessageLane> message_lanes(const mesh::DeviceMesh& mesh, int32_t rank,
                                       const std::vector<const plan::Plan*>& plans,
                                       const ShardLayout& layout);

}  // namespace hawser::parallel::pipeline
