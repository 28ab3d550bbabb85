#include "engine/mesh/element_run.h"

namespace hawser::mesh {
namespace {

void append(std::vector<ElementRun>* runs, const ElementRun& next) {
  if (!runs->empty()) {
    ElementRun& last = runs->back();
    if (last.end == next.begin && last.at + last.size() == next.at) {
      last.end = next.end;
      return;
    }
  }
  runs->push_back(next);
}

}  // namespace

std::vector<ElementRun> element_runs(const PlacedTensor& tensor, int64_t rank) {
  Index extents{1, 1, 1, 1};
  for (size_t d = 0; d < tensor.shape().size(); ++d) extents[d] = tensor.shape()[d];
  const Index strides = row_major_strides(extents);
  const size_t last = tensor.shape().size() - 1;  // rows are runs along this dim
  std::vector<ElementRun> runs;
  for (const Block& block : tensor.blocks(rank)) {
    Index row = block.box.begin;
    for (bool more = true; more;) {
      int64_t begin = 0;
      for (size_t d = 0; d <= last; ++d) begin += row[d] * strides[d];
      append(&runs, {begin, begin + block.box.extent(last), block.position(row)});
      more = false;
      for (size_t d = last; !more && d-- > 0;) {
        more = ++row[d] < block.box.end[d];
        if (!more) row[d] = block.box.begin[d];
      }
    }
  }
  return runs;
}

std::vector<ElementRows> joined_rows(const std::vector<ElementRun>& runs, int64_t columns) {
  std::vector<ElementRows> joined;
  for (const ElementRun& run : runs) {
    if (!joined.empty()) {
      ElementRows& last = joined.back();
      const int64_t size = last.first.size();
      if (run.size() == size && size < columns && run.begin == last.first.begin + last.rows * columns &&
          run.at == last.first.at + last.rows * size) {
        ++last.rows;
        continue;
      }
    }
    joined.push_back({run, 1});
  }
  return joined;
}

}  // namespace hawser::mesh
