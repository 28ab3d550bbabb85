// The split form of the matrix product, for a long k; matmul_plan.h gives the reason.
#pragma once

#include "kernels/cpu/matmul_parts.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

template <class Words>
class SplitForm {
 public:
  explicit SplitForm(const MatmulParts<Words>& parts)
      : p_(parts), args_(parts.args), plan_(parts.plan), segments_(divide_up(plan_.blocks, plan_.segment)) {}

  void run() const {
    for (int64_t ic = 0; ic < args_.m; ic += plan_.chunk_m) {
      for (int64_t jc = 0; jc < args_.n; jc += plan_.chunk_n) {
        const int64_t rows = smaller(plan_.chunk_m, args_.m - ic), n = smaller(plan_.chunk_n, args_.n - jc);
        const int64_t panels = divide_up(n, kTileColumns), parts = plan_.column_parts;
        const auto column = [&](int64_t part) { return smaller(n, panels * part / parts * kTileColumns); };
        parallel(p_.stream, segments_ * parts, [&](int64_t task, int32_t worker) {
          const int64_t segment = task / parts, j = column(task % parts), end = column(task % parts + 1);
          compute_segment(segment, {ic, rows, jc + j, end - j}, p_.sums + segment * rows * plan_.chunk_n + j,
                          worker);
        });
        parallel(p_.stream, rows, [&](int64_t row, int32_t) {
          add_segments(ic + row, jc, n, p_.sums + row * plan_.chunk_n, rows * plan_.chunk_n);
        });
      }
    }
  }

 private:
  struct Rectangle {
    int64_t row, rows, column, columns;
  };

  /// Computes sums [rows][chunk_n] of one segment. While a block of op(a) is multiplied by tile after tile of
  /// columns, the next block is packed in equal shares.
  void compute_segment(int64_t segment, const Rectangle& of, float* sums, int32_t worker) const {
    const int64_t panels = divide_up(of.rows, kTileRows), tiles = divide_up(of.columns, plan_.tile_n);
    const int64_t begin = segment * plan_.segment, end = smaller(begin + plan_.segment, plan_.blocks);
    const auto packed = [&](int64_t block) {
      return p_.packed_a + (worker * 2 + block % 2) * plan_.chunk_m * plan_.block_words;
    };
    const auto column = [&](int64_t tile) { return smaller(of.columns, tile * plan_.tile_n); };
    p_.template pack_panels<kTileRows>(packed(begin), p_.op_a, of.row, panels, begin);
    for (int64_t block = begin; block < end; ++block) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t j = column(tile);
        Columns c{of.row, of.rows, of.column + j, column(tile + 1) - j, block, packed(block)};
        c.sums = sums + j;
        c.sums_ld = plan_.chunk_n;
        if (block + 1 < end) {
          const int64_t panel = panels * tile / tiles;
          c.share_line = of.row + panel * kTileRows;
          c.share_panels = panels * (tile + 1) / tiles - panel;
          c.share_block = block + 1;
          c.share = packed(block + 1) + panel * kTileRows * plan_.block_words;
        }
        const int64_t next = tile + 1 < tiles ? tile + 1 : 0;
        c.next_block = next > 0 ? block : block + 1;
        c.next_column = of.column + column(next);
        c.next_columns = c.next_block < end ? column(next + 1) - column(next) : 0;
        p_.compute_columns(c, worker);
      }
    }
  }

  /// Adds n elements of a row of C, from `column` on, over the segments, which are `stride` apart.
  void add_segments(int64_t row, int64_t column, int64_t n, const float* sums, int64_t stride) const {
    const int64_t at = row * args_.ldc + column;
    float* const wide = static_cast<float*>(args_.c) + at;
    for (int64_t j = 0; j < n; j += kLanes) {
      const int lanes = static_cast<int>(smaller(kLanes, n - j));
      vf sum = args_.accumulate ? vload_n(wide + j, lanes) : vzero();
      for (int64_t s = 0; s < segments_; ++s) sum = vadd(sum, vload_n(sums + s * stride + j, lanes));
      with_element(args_.c_type, [&](auto element) {
        Words::Product::store_rest(static_cast<decltype(element)*>(args_.c) + at + j, sum, lanes);
      });
    }
  }

  const MatmulParts<Words>& p_;
  const Matmul& args_;
  const MatmulPlan& plan_;
  const int64_t segments_;
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
