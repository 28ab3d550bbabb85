// Every mesh up to 64 ranks, layouts for each, and an element-by-element reference without boxes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/mesh/placed_tensor.h"

namespace hawser::mesh {

constexpr int64_t kMostTestRanks = 64;

/// All degrees of the dense axes with at most `ranks` ranks; expert degrees 1.
std::vector<Degrees> dense_meshes(int64_t ranks = kMostTestRanks);
/// `dense` with every ep and etp that fits.
std::vector<Degrees> expert_meshes(const Degrees& dense);

struct LayoutCase {
  std::string name;
  Layout layout;
  std::vector<int64_t> shape;
};
/// Layouts that this mesh allows, without Partial, over shapes that divide by nothing. Dense axes.
std::vector<LayoutCase> dense_cases(const DeviceMesh& mesh);
std::vector<LayoutCase> expert_cases(const DeviceMesh& mesh);

/// Calls `visit` with every index of a tensor.
void for_each_index(const std::vector<int64_t>& shape, const std::function<void(const Index&)>& visit);

/// Whether a rank holds an element, straight from the definition of the layout.
bool reference_holds(const PlacedTensor& tensor, int64_t rank, const Index& index);

std::string text(const Degrees& degrees);

}  // namespace hawser::mesh
