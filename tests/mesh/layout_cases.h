// Layout cases: every mesh up to 64 ranks, layouts for each, and an element-by-element reference without
// boxes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/mesh/placed_tensor.h"

namespace hawser::mesh {

constexpr int64_t kMostTestRanks = 64;

/// Returns all degrees of the dense axes with at most `ranks` ranks; expert degrees are 1.
std::vector<Degrees> dense_meshes(int64_t ranks = kMostTestRanks);
/// Returns `dense` with every possible ep and etp.
std::vector<Degrees> expert_meshes(const Degrees& dense);

struct LayoutCase {
  std::string name;
  Layout layout;
  std::vector<int64_t> shape;
};
/// Return layouts that this mesh allows, without Partial, for shapes that no degree divides; dense_cases uses
/// dense axes only.
std::vector<LayoutCase> dense_cases(const DeviceMesh& mesh);
std::vector<LayoutCase> expert_cases(const DeviceMesh& mesh);

/// Calls `visit` with every index of a tensor.
void for_each_index(const std::vector<int64_t>& shape, const std::function<void(const Index&)>& visit);

/// True if a rank holds an element, directly by the definition of the layout.
bool reference_holds(const PlacedTensor& tensor, int64_t rank, const Index& index);

std::string text(const Degrees& degrees);

}  // namespace hawser::mesh
