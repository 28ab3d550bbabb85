// The shared form of the matrix product; matmul_plan.h describes when it is used.
#pragma once

#include "kernels/cpu/matmul_parts.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

template <class Words>
class SharedForm {
 public:
  explicit SharedForm(const MatmulParts<Words>& parts) : p_(parts), args_(parts.args), plan_(parts.plan) {}

  void run() const {
    const int64_t groups = divide_up(plan_.blocks, plan_.group);
    int64_t packed_a_at = -1, packed_b_at = -1;  // chunk and group that the packed operands hold
    for (int64_t jc = 0; jc < args_.n; jc += plan_.chunk_n) {
      for (int64_t ic = 0; ic < args_.m; ic += plan_.chunk_m) {
        for (int64_t g = 0; g < groups; ++g) {
          const bool pack_a = packed_a_at != ic * groups + g, pack_b = packed_b_at != jc * groups + g;
          packed_a_at = ic * groups + g;
          packed_b_at = jc * groups + g;
          pack_chunk(ic, jc, g * plan_.group, pack_a, pack_b);
          compute_chunk(ic, jc, g * plan_.group);
        }
      }
    }
  }

 private:
  void pack_chunk(int64_t ic, int64_t jc, int64_t first_block, bool pack_a, bool pack_b) const {
    const int64_t blocks = smaller(plan_.group, plan_.blocks - first_block), step_a = p_.pack_panels_a;
    const int64_t panels_a = divide_up(smaller(plan_.chunk_m, args_.m - ic), kTileRows);
    const int64_t panels_b = divide_up(smaller(plan_.chunk_n, args_.n - jc), kTileColumns);
    const int64_t tasks_a = pack_a ? blocks * divide_up(panels_a, step_a) : 0;
    const int64_t tasks_b = pack_b ? blocks * divide_up(panels_b, kPackPanelsB) : 0;
    parallel(p_.stream, tasks_a + tasks_b, [&](int64_t task, int32_t) {
      if (task < tasks_a) {
        p_.template pack_task<kTileRows>(p_.packed_a, p_.op_a, task, step_a, ic, panels_a, first_block);
      } else {
        p_.template pack_task<kTileColumns>(p_.packed_b, p_.op_b, task - tasks_a, kPackPanelsB, jc, panels_b,
                                            first_block);
      }
    });
  }

  /// Computes the tiles of a chunk. Neighbouring tasks share rows of op(a). The columns of op(b) of a chunk
  /// are reused for every row of tiles, which is cheapest while they stay in L2.
  void compute_chunk(int64_t ic, int64_t jc, int64_t first_block) const {
    const int64_t m = smaller(plan_.chunk_m, args_.m - ic), n = smaller(plan_.chunk_n, args_.n - jc);
    const int64_t panels_a = divide_up(m, kTileRows), panels_b = divide_up(n, kTileColumns);
    const int64_t tiles_m = divide_up(m, plan_.tile_m), tiles_n = divide_up(n, plan_.tile_n);
    const int64_t blocks = smaller(plan_.group, plan_.blocks - first_block);
    parallel(p_.stream, tiles_m * tiles_n, [&](int64_t task, int32_t worker) {
      const int64_t i = task / tiles_n * plan_.tile_m, j = task % tiles_n * plan_.tile_n;
      Tile tile{ic + i,  smaller(plan_.tile_m, m - i),
                jc + j,  smaller(plan_.tile_n, n - j),
                nullptr, nullptr,
                nullptr, 0};
      if (p_.sums != nullptr) {
        tile.sums_ld = plan_.sums_per_worker ? plan_.tile_n : plan_.chunk_n;
        tile.sums = plan_.sums_per_worker ? p_.sums + worker * plan_.tile_m * plan_.tile_n
                                          : p_.sums + i * plan_.chunk_n + j;
      }
      for (int64_t block = 0; block < blocks; ++block) {
        tile.a = p_.packed_a + (block * panels_a * kTileRows + i) * plan_.block_words;
        tile.b = p_.packed_b + (block * panels_b * kTileColumns + j) * plan_.block_words;
        NothingAhead nothing;
        p_.compute_tile(tile, first_block + block, nothing);
      }
    });
  }

  const MatmulParts<Words>& p_;
  const Matmul& args_;
  const MatmulPlan& plan_;
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
