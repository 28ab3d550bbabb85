#include "engine/nn/tiled_sums.h"

#include <algorithm>

namespace hawser::nn {
namespace {

kernels::SumBlocks blocks_of(const Context& ctx) {
  if (ctx.kernels->matmul_sum_blocks == nullptr) return {1, ctx.rows(), 1};
  return ctx.kernels->matmul_sum_blocks(ctx.type, ctx.rows());
}

int64_t aligned(int64_t bytes) { return (bytes + Region::kAlign - 1) / Region::kAlign * Region::kAlign; }

}  // namespace

TiledSums::TiledSums(const Context& ctx, int64_t bytes)
    : ctx_(ctx),
      rows_(ctx.rows()),
      blocks_(blocks_of(ctx)),
      memory_(ctx.workspace->take(bytes), aligned(bytes)) {
  room_ = std::min(rows_, std::max(ctx.remakes.rows, blocks_.most));
}

/// Only several segments need an array for a weight.
int64_t TiledSums::sum_bytes(const Context& ctx, int64_t weight_elements, int64_t bias_elements) {
  const int64_t size = sizeof(float);
  const bool segments = blocks_of(ctx).segment < ctx.rows();
  return (segments ? aligned(weight_elements * size) : 0) + aligned(bias_elements * size);
}

int64_t TiledSums::segment_end() const {
  return std::min(rows_, (begin_ / blocks_.segment + 1) * blocks_.segment);
}

bool TiledSums::next() {
  begin_ = end_;
  if (begin_ >= rows_) return false;
  end_ = std::min(segment_end(), begin_ + std::max(blocks_.block, room_ / blocks_.block * blocks_.block));
  return true;
}

Context TiledSums::context() const {
  Context tile = ctx_.of_rows(begin_, end_ - begin_);
  tile.accumulate = ctx_.accumulate || begin_ > 0;
  tile.tiled = this;
  return tile;
}

float* TiledSums::sum_of(Place to, int64_t elements) const {
  for (size_t i = 0; i < count_; ++i)
    if (sums_[i].place.group == to.group && sums_[i].place.offset == to.offset) return sums_[i].data;
  HWS_CHECK(count_ < sums_.size());
  sums_[count_] = {to, memory_.take_as<float>(elements)};
  return sums_[count_++].data;
}

/// Adds segments to a gradient that starts as zeros, because one product over all rows adds them like this.
void TiledSums::add(const Context& tile, kernels::Matmul m, Place to) const {
  m.k_block = blocks_.block;
  m.accumulate = tile.accumulate;
  if (!is_segmented()) return tile.matmul(m);
  auto* const gradient = static_cast<float*>(m.c);
  if (!tile.accumulate) {
    kernels::Matmul zeros = m;
    zeros.k = zeros.k_block = 0;
    tile.matmul(zeros);
  }
  float* const sum = sum_of(to, m.m * m.n);
  m.c = sum;
  m.accumulate = begin_ % blocks_.segment != 0;
  tile.matmul(m);
  if (end_ == segment_end()) tile.kernels->add({gradient, gradient, sum, m.m * m.n}, *tile.stream);
}

void TiledSums::add(const Context& tile, kernels::ColumnSum s, Place to) const {
  s.open = sum_of(to, s.n);
  s.first = begin_, s.ends = end_ == rows_;
  s.accumulate = tile.accumulate;
  tile.kernels->column_sum(s, *tile.stream);
}

/// A batch with fewer rows may have larger tiles, so a product gets the workspace of the largest tile. Only
/// products that sum rows have blocks.
int64_t Context::matmul_workspace_bytes(const kernels::Matmul& m) const {
  kernels::Matmul most = m;
  if (tiled != nullptr) {
    int64_t& rows = m.k_block > 0 ? most.k : most.m;
    rows = std::max(rows, tiled->room());
  }
  return kernels->matmul_workspace_bytes(most, stream->num_workers);
}

void Context::sum_rows(kernels::Matmul m, Place to) const {
  const GradientPlace place = gradient_place(to);
  m.c = place.data, m.c_type = place.type;
  if (m.c == nullptr) return;
  if (tiled != nullptr) return tiled->add(*this, m, to);
  m.accumulate = accumulate;
  matmul(m);
}

void Context::sum_rows(kernels::ColumnSum s, Place to) const {
  const RegionScope scope(*workspace);
  s.dbias = summed_gradient(to, s.n);
  if (s.dbias == nullptr) return;
  s.workspace = workspace->take(kernels->column_sum_workspace_bytes(s, stream->num_workers));
  if (tiled != nullptr) return tiled->add(*this, s, to);
  s.accumulate = accumulate;
  kernels->column_sum(s, *stream);
  round_gradient(to, s.dbias, s.n);
}

}  // namespace hawser::nn
