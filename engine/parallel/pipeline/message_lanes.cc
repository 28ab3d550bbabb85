#include "engine/parallel/pipeline/message_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace hawser::parallel::pipeline {

using plan::Lane;

int64_t peer_stage(const mesh::DeviceMesh& mesh, int64_t rank, Lane lane) {
  using enum plan::Lane;
  const int64_t stages = mesh.degree(mesh::Axis::kPp), own = mesh.coordinate(rank, mesh::Axis::kPp);
  if (lane == kTable || lane == kTableGradient) return own == 0 ? stages - 1 : 0;
  const bool next = lane == kXToNext || lane == kXFromNext || lane == kDxToNext || lane == kDxFromNext;
  return (own + (next ? 1 : stages - 1)) % stages;
}

namespace {

/// Returns the group of a lane: its two ranks, ascending, and its name. The name contains the sender's stage,
/// so both ranks use the same one.
comm::GroupRequest group_of(const mesh::DeviceMesh& mesh, int32_t rank, Lane lane) {
  using enum plan::Lane;
  const int64_t own = mesh.coordinate(rank, mesh::Axis::kPp), other = peer_stage(mesh, rank, lane);
  const auto peer = static_cast<int32_t>(mesh.at(rank, mesh::Axis::kPp, other));
  comm::GroupRequest group;
  if (lane == kTable || lane == kTableGradient) {
    group.name = plan::lane_name(lane);
  } else {
    const bool to = lane == kXToNext || lane == kXToPrevious || lane == kDxToNext || lane == kDxToPrevious;
    const bool x = lane == kXToNext || lane == kXToPrevious || lane == kXFromNext || lane == kXFromPrevious;
    const bool with_next = lane == kXToNext || lane == kXFromNext || lane == kDxToNext || lane == kDxFromNext;
    const bool forth = with_next == to;  // from a stage to its next
    group.name = fmt::format("{}_{}.{}", x ? "x" : "dx", forth ? "down" : "up", to ? own : other);
  }
  group.members = {std::min(rank, peer), std::max(rank, peer)};
  group.lane = {.name = group.name, .sums = false};
  return group;
}

}  // namespace

std::vector<MessageLane> message_lanes(const mesh::DeviceMesh& mesh, int32_t rank,
                                       const std::vector<const plan::Plan*>& plans) {
  std::set<Lane> used;
  for (const plan::Plan* plan : plans)
    for (const plan::Instruction& n : plan->instructions)
      if (plan::is_message(n.op)) used.insert(n.lane);
  std::vector<MessageLane> lanes;
  for (const Lane lane : used) lanes.push_back({lane, group_of(mesh, rank, lane)});
  std::sort(lanes.begin(), lanes.end(),
            [](const MessageLane& a, const MessageLane& b) { return a.group.name < b.group.name; });
  return lanes;
}

}  // namespace hawser::parallel::pipeline
