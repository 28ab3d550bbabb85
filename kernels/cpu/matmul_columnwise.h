// The column-wise form of the matrix product; matmul_plan.h describes when it is used.
#pragma once

#include "kernels/cpu/matmul_parts.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kInlinePackWords = 8192;  ///< op(a) up to this size is packed without a parallel loop

template <class Words>
class ColumnwiseForm {
 public:
  explicit ColumnwiseForm(const MatmulParts<Words>& parts)
      : p_(parts), args_(parts.args), plan_(parts.plan), workers_(parts.stream.num_workers) {}

  void run() const {
    for (int64_t first = 0; first < plan_.blocks; first += plan_.group) {
      const int64_t blocks = smaller(plan_.group, plan_.blocks - first);
      if (first == 0 || plan_.a_buffers == 1) pack_a(first, blocks);
      parallel(p_.stream, tasks(), [&](int64_t task, int32_t worker) {
        for (int64_t block = first; block < first + blocks; ++block) compute({task, block}, worker, first);
      });
    }
  }

 private:
  /// Returns the memory in which op(a) of one block is packed.
  float* packed_a(int64_t block) const {
    const int64_t place = block % (plan_.group * plan_.a_buffers);
    return p_.packed_a + place * plan_.chunk_m * plan_.block_words;
  }

  /// Packs op(a) of some blocks.
  void pack_a(int64_t first, int64_t blocks) const {
    const int64_t panels = divide_up(args_.m, kTileRows), step = p_.pack_panels_a;
    const int64_t tasks = blocks * divide_up(panels, step);
    const auto pack = [&](int64_t task, int32_t) {
      p_.template pack_task<kTileRows>(packed_a(first), p_.op_a, task, step, 0, panels, first);
    };
    if (args_.m * args_.k <= kInlinePackWords) {
      for (int64_t task = 0; task < tasks; ++task) pack(task, 0);
    } else {
      parallel(p_.stream, tasks, pack);
    }
  }

  /// Divides columns among workers so that they differ by at most one panel (a worker with one less has an
  /// empty last task). Tiles have tile_n columns; the last tile is assigned one panel at a time, so that
  /// workers finish together.
  int64_t panels_before(int64_t worker) const { return divide_up(args_.n, kTileColumns) * worker / workers_; }
  int64_t most_panels() const { return divide_up(divide_up(args_.n, kTileColumns), workers_); }
  int64_t tile_panels() const { return plan_.tile_n / kTileColumns; }
  int64_t wide_tasks() const { return (most_panels() - 1) / tile_panels(); }  // of one worker
  int64_t worker_tasks() const { return wide_tasks() + most_panels() - wide_tasks() * tile_panels(); }
  int64_t tasks() const { return worker_tasks() * workers_; }
  int64_t first_column(int64_t task) const {
    const int64_t worker = task / worker_tasks(), own = task % worker_tasks();
    const int64_t wide = smaller(own, wide_tasks());
    const int64_t panel = panels_before(worker) + wide * tile_panels() + own - wide;
    return smaller(args_.n, smaller(panel, panels_before(worker + 1)) * kTileColumns);
  }

  /// Computes one step of a task, in a group of blocks that begins at `first`.
  void compute(Step step, int32_t worker, int64_t first) const {
    const int64_t j = first_column(step.task), end = first_column(step.task + 1), block = step.block;
    Columns c{0, args_.m, j, end - j, block, packed_a(block)};
    if (p_.sums != nullptr) {
      c.sums_ld = plan_.tile_n;
      c.sums = p_.sums + worker * plan_.tile_m * plan_.tile_n;
    }
    if (plan_.a_buffers > 1 && block + plan_.group < plan_.blocks) {
      // This task packs its share of op(a) of the next group, so that packing delays no worker.
      const int64_t panels = divide_up(args_.m, kTileRows), panel = panels * j / args_.n;
      c.share_line = panel * kTileRows;
      c.share_panels = panels * end / args_.n - panel;
      c.share_block = block + plan_.group;
      c.share = packed_a(c.share_block) + c.share_line * plan_.block_words;
    }
    const Step after =
        p_.step_after(step, first, smaller(first + plan_.group, plan_.blocks), tasks(), worker);
    if (after.task < tasks()) {
      c.next_column = first_column(after.task);
      c.next_columns = first_column(after.task + 1) - c.next_column;
      c.next_block = after.block;
    }
    p_.compute_columns(c, worker);
  }

  const MatmulParts<Words>& p_;
  const Matmul& args_;
  const MatmulPlan& plan_;
  const int64_t workers_;
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
