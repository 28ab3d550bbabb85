// MessageLane: a lane in which a rank exchanges messages with a rank of another pipeline stage.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/mesh/mesh.h"
#include "engine/plan/plan.h"

namespace hawser::parallel::pipeline {

struct MessageLane {
  plan::Lane lane;
  comm::GroupRequest group;  ///< this rank and the other one, in a lane of the comm of their own
};

/// Returns the stage with which a rank exchanges messages in a lane.
int64_t peer_stage(const mesh::DeviceMesh& mesh, int64_t rank, plan::Lane lane);

/// Returns the lanes that the rank's plans use, sorted by name. Two ranks connect when both make their group,
/// so making one waits for the other rank. All ranks make their groups in this order, so the waits form no
/// cycle.
std::vector<MessageLane> message_lanes(const mesh::DeviceMesh& mesh, int32_t rank,
                                       const std::vector<const plan::Plan*>& plans);

}  // namespace hawser::parallel::pipeline
