#include "engine/mesh/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/mesh/mesh_config.h"

namespace hawser::mesh {
namespace {

constexpr int64_t kMostRanks = 2147483647;

constexpr const char* kNames[kAxes] = {"pp", "dp_replicate", "dp_shard", "cp", "tp", "edp", "ep", "etp"};

}  // namespace

std::string degrees_text(const MeshConfig& mesh) {
  std::string text = mesh.pp > 1 ? fmt::format("pp {} x ", mesh.pp) : "";
  text += fmt::format("dp_replicate {} x dp_shard {}", mesh.dp_replicate, mesh.dp_shard);
  if (mesh.cp > 1) text += fmt::format(" x cp {}", mesh.cp);
  if (mesh.tp > 1) text += fmt::format(" x tp {}", mesh.tp);
  if (mesh.ep > 1) text += fmt::format(", ep {}", mesh.ep);
  return text;
}

std::string model_axes(const MeshConfig& mesh) {
  std::string text;
  for (const auto& [axis, degree] :
       {std::pair{"/mesh/pp", mesh.pp}, {"/mesh/cp", mesh.cp}, {"/mesh/tp", mesh.tp}})
    if (degree > 1) text += (text.empty() ? "" : " x ") + std::string(axis);
  return text;
}

MeshConfig MeshConfig::with_data_ranks(int64_t ranks) const {
  MeshConfig mesh = *this;
  mesh.dp_shard = ranks;
  if (dp_shard == 1 && dp_replicate > 1) mesh.dp_shard = 1;
  if (dp_replicate > 1 && ranks % dp_shard == 0) mesh.dp_shard = dp_shard;
  mesh.dp_replicate = ranks / mesh.dp_shard;
  return mesh;
}

DeviceMesh::DeviceMesh(const MeshConfig& config)
    : DeviceMesh(Degrees{config.pp, config.dp_replicate, config.dp_shard, config.cp, config.tp, config.ep}) {}

const char* axis_name(Axis axis) { return kNames[static_cast<size_t>(axis)]; }

DeviceMesh::DeviceMesh(const Degrees& degrees) {
  const std::pair<Axis, int64_t> given[] = {{Axis::kPp, degrees.pp},
                                            {Axis::kDpReplicate, degrees.dp_replicate},
                                            {Axis::kDpShard, degrees.dp_shard},
                                            {Axis::kCp, degrees.cp},
                                            {Axis::kTp, degrees.tp},
                                            {Axis::kEp, degrees.ep},
                                            {Axis::kEtp, degrees.etp}};
  int64_t world = 1;
  for (const auto& [axis, degree] : given) {
    if (degree < 1 || degree > kMostRanks)
      fail(Code::kInvalidArgument, "mesh: the degree of {} is {}; use 1 to {}", axis_name(axis), degree,
           kMostRanks);
    degree_[static_cast<size_t>(axis)] = degree;
    if (is_expert_axis(axis)) continue;
    world *= degree;
    if (world > kMostRanks)
      fail(Code::kInvalidArgument,
           "mesh: pp {} x dp_replicate {} x dp_shard {} x cp {} x tp {} are more than {} ranks", degrees.pp,
           degrees.dp_replicate, degrees.dp_shard, degrees.cp, degrees.tp, kMostRanks);
  }
  const int64_t experts = degrees.ep * degrees.etp;
  if (stage_size() % experts != 0)
    fail(
        Code::kInvalidArgument,
        "mesh: ep {} x etp {} do not divide the {} ranks of a pipeline stage; use degrees whose product does",
        degrees.ep, degrees.etp, stage_size());
  degree_[static_cast<size_t>(Axis::kEdp)] = stage_size() / experts;

  stride_[static_cast<size_t>(Axis::kPp)] = stage_size();
  for (const auto& [inner, outer] :
       {std::pair{Axis::kTp, Axis::kDpReplicate}, std::pair{Axis::kEtp, Axis::kEdp}}) {
    int64_t stride = 1;
    for (size_t axis = static_cast<size_t>(inner); axis >= static_cast<size_t>(outer); --axis) {
      stride_[axis] = stride;
      stride *= degree_[axis];
    }
  }
}

std::vector<int64_t> DeviceMesh::group(int64_t rank, std::span<const Axis> axes) const {
  if (rank < 0 || rank >= world_size())
    fail(Code::kInvalidArgument, "mesh: there is no rank {} in a world of {}", rank, world_size());
  const auto dense = std::find_if(axes.begin(), axes.end(), is_dense_axis);
  const auto expert = std::find_if(axes.begin(), axes.end(), is_expert_axis);
  if (dense != axes.end() && expert != axes.end())
    fail(Code::kInvalidArgument, "mesh: {} and {} arrange the same ranks; a group takes dense or expert axes",
         axis_name(*dense), axis_name(*expert));
  // Goes from the outermost axis inwards, so that the ranks are in ascending order.
  std::vector<Axis> sorted(axes.begin(), axes.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<int64_t> members = {rank};
  for (const Axis axis : sorted) {
    std::vector<int64_t> wider;
    for (const int64_t member : members) {
      for (int64_t i = 0; i < degree(axis); ++i) wider.push_back(at(member, axis, i));
    }
    members = std::move(wider);
  }
  return members;
}

}  // namespace hawser::mesh
