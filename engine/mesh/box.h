// Box: a rectangular range of element indices of a tensor of up to 4 dims.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hawser::mesh {

constexpr size_t kMostDims = 4;
using Index = std::array<int64_t, kMostDims>;  ///< entries beyond the tensor's dims are 0

/// Indices begin[d] <= i < end[d]. Dims beyond the tensor's go from 0 to 1.
struct Box {
  Index begin{0, 0, 0, 0}, end{1, 1, 1, 1};

  int64_t extent(size_t dim) const { return end[dim] - begin[dim]; }
  bool is_empty() const {
    for (size_t d = 0; d < kMostDims; ++d) {
      if (end[d] <= begin[d]) return true;
    }
    return false;
  }
  int64_t elements() const { return is_empty() ? 0 : extent(0) * extent(1) * extent(2) * extent(3); }
  bool contains(const Index& index) const {
    for (size_t d = 0; d < kMostDims; ++d) {
      if (index[d] < begin[d] || index[d] >= end[d]) return false;
    }
    return true;
  }
  bool operator==(const Box&) const = default;
};

/// The intersection; it may be empty.
inline Box intersection(const Box& a, const Box& b) {
  Box both;
  for (size_t d = 0; d < kMostDims; ++d) {
    both.begin[d] = std::max(a.begin[d], b.begin[d]);
    both.end[d] = std::min(a.end[d], b.end[d]);
  }
  return both;
}

/// Strides in elements of a row-major array.
Index row_major_strides(const Index& extents);

/// Returns the boxes that make up elements [begin, end) of a row-major array, in ascending order: at most two
/// for each dim except the last, plus one.
std::vector<Box> boxes_of_run(const Index& extents, int64_t begin, int64_t end);

}  // namespace hawser::mesh
