#include "tests/mesh/layout_cases.h"

#include <fmt/format.h>

#include "engine/mesh/flat_shard.h"

namespace hawser::mesh {

std::vector<Degrees> dense_meshes(int64_t ranks) {
  std::vector<Degrees> all;
  for (int64_t pp = 1; pp <= ranks; ++pp)
    for (int64_t replicate = 1; pp * replicate <= ranks; ++replicate)
      for (int64_t shard = 1; pp * replicate * shard <= ranks; ++shard)
        for (int64_t cp = 1; pp * replicate * shard * cp <= ranks; ++cp)
          for (int64_t tp = 1; pp * replicate * shard * cp * tp <= ranks; ++tp)
            all.push_back({pp, replicate, shard, cp, tp, 1, 1});
  return all;
}

std::vector<Degrees> expert_meshes(const Degrees& dense) {
  std::vector<Degrees> all;
  const int64_t stage = dense.dp_replicate * dense.dp_shard * dense.cp * dense.tp;
  for (int64_t ep = 1; ep <= stage; ++ep) {
    for (int64_t etp = 1; ep * etp <= stage; ++etp) {
      if (stage % (ep * etp) != 0) continue;
      all.push_back(dense);
      all.back().ep = ep;
      all.back().etp = etp;
    }
  }
  return all;
}

std::vector<LayoutCase> dense_cases(const DeviceMesh& mesh) {
  using enum Axis;
  std::vector<LayoutCase> cases = {
      {"replicated", {}, {5, 3}},
      {"zero", {{flat({kDpShard, kCp}, 40, 150)}, {}}, {7, 5, 3}},
      {"zero over all", {{flat({kDpReplicate, kDpShard, kCp}, 0, 1000)}, {}}, {31, 11}},
      {"vocabulary rows", {{shard({kTp}, 0)}, {}}, {7, 3}},
      {"row linear", {{shard({kTp}, 1)}, {}}, {3, 11}},
      {"whole heads", {{shard({kTp}, 0, 5)}, {}}, {15, 2}},
      {"two dims", {{shard({kDpShard}, 1), shard({kTp}, 2), shard({kCp}, 0)}, {}}, {3, 5, 7}},
      {"cut in cut", {{shard({kTp}, 0, 3), shard({kDpShard}, 0)}, {}}, {21, 2}},
      {"flat of columns", {{shard({kTp}, 1, 3), flat({kDpShard, kCp}, 13, 400)}, {}}, {9, 6}},
      {"flat of a cube", {{shard({kTp}, 1), flat({kDpShard}, 1, 500)}, {}}, {2, 5, 3, 4}},
  };
  cases.push_back({"last stage", {{shard({kDpShard}, 0)}, {mesh.degree(kPp) - 1}}, {9}});
  if (mesh.degree(kPp) > 2)
    cases.push_back({"first and last stage", {{shard({kTp}, 0)}, {0, mesh.degree(kPp) - 1}}, {9}});
  for (int64_t outer = 1; outer <= mesh.degree(kTp); ++outer) {
    if (mesh.degree(kTp) % outer != 0) continue;
    cases.push_back(
        {"kv heads", {{shard({outer_half(kTp, outer)}, 0, 4), flat({kDpShard}, 0, 200)}, {}}, {8, 3}});
    cases.push_back({"inner half", {{shard({inner_half(kTp, outer)}, 0)}, {}}, {7}});
  }
  return cases;
}

std::vector<LayoutCase> expert_cases(const DeviceMesh&) {
  using enum Axis;
  return {
      {"experts", {{shard({kEp}, 0)}, {}}, {5, 3, 2}},
      {"cut experts", {{shard({kEp}, 0), shard({kEtp}, 1), flat({kEdp}, 7, 333)}, {}}, {4, 5, 3}},
      {"experts of one run", {{shard({kEp, kEtp}, 0, 6)}, {}}, {12}},
  };
}

void for_each_index(const std::vector<int64_t>& shape, const std::function<void(const Index&)>& visit) {
  Index end{1, 1, 1, 1}, i{};
  for (size_t d = 0; d < shape.size(); ++d) end[d] = shape[d];
  for (i[0] = 0; i[0] < end[0]; ++i[0])
    for (i[1] = 0; i[1] < end[1]; ++i[1])
      for (i[2] = 0; i[2] < end[2]; ++i[2])
        for (i[3] = 0; i[3] < end[3]; ++i[3]) visit(i);
}

bool reference_holds(const PlacedTensor& tensor, int64_t rank, const Index& index) {
  const DeviceMesh& mesh = tensor.mesh();
  const Layout& layout = tensor.layout();
  if (!layout.stages.empty()) {
    bool on_stage = false;
    for (const int64_t stage : layout.stages)
      on_stage = on_stage || stage == mesh.coordinate(rank, Axis::kPp);
    if (!on_stage) return false;
  }
  // Applies the divisions in order: i is the index within the part that remains, size its extent.
  Index i = index, size{1, 1, 1, 1};
  for (size_t d = 0; d < tensor.shape().size(); ++d) size[d] = tensor.shape()[d];
  for (const Entry& entry : layout.entries) {
    if (entry.placement != Placement::kShard) continue;
    const size_t d = static_cast<size_t>(entry.dim);
    const int64_t piece = entry.pieces == 0 ? 1 : tensor.shape()[d] / entry.pieces;
    const int64_t ranks = degree(mesh, entry.axes);
    int64_t share = piece;
    while (share * ranks < size[d]) share += piece;
    int64_t place = 0;
    while ((place + 1) * share <= i[d]) ++place;
    if (place != coordinate(mesh, rank, entry.axes)) return false;
    i[d] -= place * share;
    size[d] = share;
  }
  for (const Entry& entry : layout.entries) {
    if (entry.placement != Placement::kFlat) continue;
    const int64_t ranks = degree(mesh, entry.axes);
    int64_t share = kShardAlign;
    while (share * ranks < entry.buffer_elements) share += kShardAlign;
    const int64_t at = entry.offset + ((i[0] * size[1] + i[1]) * size[2] + i[2]) * size[3] + i[3];
    if (at / share != coordinate(mesh, rank, entry.axes)) return false;
  }
  return true;
}

std::string text(const Degrees& d) {
  return fmt::format("pp {} dp_replicate {} dp_shard {} cp {} tp {} ep {} etp {}", d.pp, d.dp_replicate,
                     d.dp_shard, d.cp, d.tp, d.ep, d.etp);
}

}  // namespace hawser::mesh
