// The row-wise form of the matrix product; matmul_plan.h describes when it is used.
#pragma once

#include "kernels/cpu/matmul_parts.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kFewPanelsB = 16;  ///< up to this many panels, one panel is packed per task
/// Like kFetchingRows, but for columns.
constexpr int64_t kFetchingColumns = 2 * kMaxTileColumns;

template <class Words>
class RowwiseForm {
 public:
  explicit RowwiseForm(const MatmulParts<Words>& parts) : p_(parts), args_(parts.args), plan_(parts.plan) {}

  void run() const {
    const int64_t panels = divide_up(args_.n, kTileColumns), step = panels < kFewPanelsB ? 1 : kPackPanelsB;
    for (int64_t first = 0; first < plan_.blocks; first += plan_.group) {
      const int64_t blocks = smaller(plan_.group, plan_.blocks - first);
      parallel(p_.stream, blocks * divide_up(panels, step), [&](int64_t task, int32_t) {
        p_.template pack_task<kTileColumns>(p_.packed_b, p_.op_b, task, step, 0, panels, first);
      });
      parallel(p_.stream, plan_.row_tasks, [&](int64_t task, int32_t worker) {
        for (int64_t block = first; block < first + blocks; block += plan_.row_blocks)
          compute({task, block}, worker, first);
      });
    }
  }

 private:
  /// Returns the first row of a task. Tasks differ by at most one panel of rows.
  int64_t first_row(int64_t task) const {
    return smaller(args_.m, divide_up(args_.m, kTileRows) * task / plan_.row_tasks * kTileRows);
  }

  /// Computes one step of a task, of row_blocks blocks, in a group that begins at `first`. Several blocks are
  /// added tile by tile, so that few sums are needed outside C.
  void compute(Step step, int32_t worker, int64_t first) const {
    const int64_t i = first_row(step.task), rows = first_row(step.task + 1) - i;
    const int64_t block_words_a = plan_.tile_m * plan_.block_words;
    float* const a = p_.packed_a + worker * plan_.row_blocks * block_words_a;
    const int64_t blocks_end = step.block + plan_.row_blocks;
    for (int64_t block = step.block; block < blocks_end; ++block) {
      p_.template pack_panels<kTileRows>(a + (block - step.block) * block_words_a, p_.op_a, i,
                                         divide_up(rows, kTileRows), block);
    }
    float* const sums = p_.sums != nullptr ? p_.sums + worker * plan_.tile_m * kMaxTileColumns : nullptr;
    const auto compute = [&](int64_t j, int64_t end, auto& next) {
      for (; j < end; j += kMaxTileColumns) {
        for (int64_t block = step.block; block < blocks_end; ++block) {
          const float* const b = p_.packed_b + ((block - first) * plan_.tile_n + j) * plan_.block_words;
          p_.compute_tile({i, rows, j, smaller(kMaxTileColumns, end - j),
                           a + (block - step.block) * block_words_a, b, sums, kMaxTileColumns},
                          block, next);
        }
      }
    };
    const int64_t late = larger(0, args_.n - kFetchingColumns) / kMaxTileColumns * kMaxTileColumns;
    NothingAhead nothing;
    compute(0, late, nothing);
    const int64_t end = smaller(first + plan_.group, plan_.blocks);
    const Step after = p_.step_after({step.task, blocks_end - 1}, first, end, plan_.row_tasks, worker);
    Ahead next;
    if (after.task < plan_.row_tasks) {
      const int64_t from = first_row(after.task), lines = first_row(after.task + 1) - from;
      next = p_.ahead(p_.op_a, from, lines, after.block, plan_.row_blocks,
                      plan_.row_blocks * p_.micro_kernel_words(rows, args_.n - late, step.block));
    }
    compute(late, args_.n, next);
  }

  const MatmulParts<Words>& p_;
  const Matmul& args_;
  const MatmulPlan& plan_;
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
