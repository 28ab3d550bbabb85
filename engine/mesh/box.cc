#include "engine/mesh/box.h"

namespace hawser::mesh {
namespace {

/// Splits the range [begin, end) of the sub-array of dims `dim` and inwards into boxes; `outer` fixes the
/// dims before it.
void cut(const Index& extents, const Index& strides, size_t dim, const Box& outer, int64_t begin, int64_t end,
         std::vector<Box>* boxes) {
  if (begin >= end) return;
  const int64_t row = strides[dim];
  const auto one_row = [&](int64_t i, int64_t first, int64_t last) {
    Box fixed = outer;
    fixed.begin[dim] = i;
    fixed.end[dim] = i + 1;
    cut(extents, strides, dim + 1, fixed, first, last, boxes);
  };
  if (begin / row == (end - 1) / row && end - begin < row) {  // within one row
    const int64_t i = begin / row;
    return one_row(i, begin - i * row, end - i * row);
  }
  const int64_t first_whole = (begin + row - 1) / row, end_whole = end / row;
  if (begin < first_whole * row) one_row(first_whole - 1, begin - (first_whole - 1) * row, row);
  if (first_whole < end_whole) {
    Box whole = outer;
    whole.begin[dim] = first_whole;
    whole.end[dim] = end_whole;
    for (size_t d = dim + 1; d < kMostDims; ++d) {
      whole.begin[d] = 0;
      whole.end[d] = extents[d];
    }
    boxes->push_back(whole);
  }
  if (end_whole * row < end) one_row(end_whole, 0, end - end_whole * row);
}

}  // namespace

Index row_major_strides(const Index& extents) {
  Index strides;
  int64_t stride = 1;
  for (size_t d = kMostDims; d-- > 0;) {
    strides[d] = stride;
    stride *= extents[d];
  }
  return strides;
}

std::vector<Box> boxes_of_run(const Index& extents, int64_t begin, int64_t end) {
  std::vector<Box> boxes;
  cut(extents, row_major_strides(extents), 0, Box{}, begin, end, &boxes);
  return boxes;
}

}  // namespace hawser::mesh
