// Plans how one matrix product is divided: a pure function of its arguments and the number of workers. Blocks
// of k, and segments of many blocks, depend only on k, and every element of C sums them in ascending order.
// Nothing else that is chosen here affects the result.
//
// There are four forms.
//
// Shared: all workers pack the rows of op(a) and columns of op(b) of a chunk, then compute tiles of C from
// them.
//
// Column-wise: all rows of op(a) are packed, for as many blocks of k as fit; if that is too large, a few
// blocks at a time while earlier ones are multiplied. Each task packs the columns of op(b) that only it uses,
// while they are in cache. This saves a barrier, and for small m (decoding) nothing is packed twice.
//
// Row-wise: all of op(b) is packed, and each task packs the rows of op(a) that only it uses. It suits small
// weights and many rows, where op(a) is the larger operand. Layer after layer goes over the same rows, and
// the thread pool gives them to the same worker, so they stay in one core's caches.
//
// Split: for long k, such as the head's input gradient, where k is the vocabulary. Each task sums one segment
// of k in its own array and packs both operands itself, so workers share neither a cache line nor a barrier.
// Then the segments are added.
//
// Tasks of all forms except the first prefetch the data that they pack next while they multiply. The larger
// operand then costs the time to pack it, but no memory latency.
#pragma once

#include "kernels/cpu/matmul_micro.h"
#include "kernels/cpu/matmul_pack.h"
#include HWS_MATMUL_BF16_WORDS
#include "kernels/include/matmul.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kBlockK = 384;          ///< maximum words of k in one block: a panel of op(a) stays in L1
constexpr int64_t kGroupK = 4 * kBlockK;  ///< maximum words of k packed at once in the shared form
/// Maximum words of one packed operand (6.1 MiB): 4,096 bf16 values of 768 lines, in six even blocks.
constexpr int64_t kPackedWords = 49 << 15;
constexpr int64_t kWholeWordsA = 5 << 18;        ///< words of op(a) that the column-wise form packs at once
constexpr int64_t kMaxTileRows = 96;             ///< rows of a task
constexpr int64_t kMaxTileColumns = 128;         ///< columns of a task: its block of op(b) stays in L2
constexpr int64_t kMaxColumnwiseSumRows = 1024;  ///< rows in the column-wise form if it needs fp32 sums
                                                 ///< outside C
constexpr int64_t kRowwiseSumWords = 2048;       ///< maximum words of k in the row-wise form, in this case
constexpr int64_t kSmallWords = 1 << 17;         ///< words of an op(b) that stays in half of an L2 of 1 MiB
constexpr int64_t kRowwiseTasks = 8;             ///< wanted tasks per worker
constexpr int64_t kLongBlocks = 32;              ///< k with this many blocks is divided into segments
constexpr int64_t kSegments = 12;                ///< divides evenly among 2, 3, 4 and 6 workers
constexpr int64_t kSplitRows = round_up(512, kTileRows);
constexpr int64_t kSplitSums = kSplitRows * 1024;  ///< maximum elements of C in one chunk of the split form
constexpr int64_t kSplitTasks = 3;                 ///< wanted tasks per worker
constexpr int64_t kAlignWords = 16;

enum class Form { kShared, kColumnwise, kRowwise, kSplit };

struct MatmulPlan {
  int64_t block_k, blocks, block_words;  ///< values of k per block, blocks, words per line and block
  int64_t segment;                       ///< blocks that are summed separately, then added to C
  int64_t group;                         ///< blocks packed at once
  int64_t chunk_m, chunk_n;              ///< lines packed at once
  int64_t tile_m, tile_n;                ///< maximum size of a task
  int64_t row_tasks;                     ///< tasks of the row-wise form
  /// Parts of the columns of a chunk of the split form, which has this many tasks per segment.
  int64_t column_parts;
  int64_t row_blocks;  ///< blocks of k that a task of the row-wise form packs at once
  int64_t a_buffers;   ///< 2: a group of op(a) is packed while the previous one is multiplied
  Form form;
  bool sums_per_worker;                 ///< otherwise there is one array for the chunk
  int64_t a_words, b_words, sum_words;  ///< words of the workspace; per-worker parts are counted once per
                                        ///< worker
};

inline int words_hold(const Matmul& args) {
  return product_type(args) == DType::kBf16 ? Bf16Words::kPerWord : 1;
}

/// Cycles per value of k, times 32 (one vector multiply-add per half cycle at 16 lanes), for the worker with
/// the most tasks: arithmetic and the traffic of both operands.
inline double tiling_cost(int64_t tiles, int64_t workers, int64_t rows, int64_t columns, double per_column) {
  const double tile = static_cast<double>(rows * columns) + per_column * static_cast<double>(columns) +
                      8.0 * static_cast<double>(rows);
  return static_cast<double>(divide_up(tiles, workers)) * tile;
}

/// Returns the next smaller size to try: about two thirds, in whole panels.
inline int64_t shrink(int64_t lines, int64_t panel) {
  return smaller(lines - panel, round_up(lines * 2 / 3, panel));
}

/// Chooses tile_m and tile_n by tiling_cost, and returns that cost plus the cost of packing op(b).
inline double choose_tiles(MatmulPlan& plan, bool columnwise, int64_t m, int64_t n, int64_t workers) {
  const double kReadColumn = 8.0, kPackOwn = 16.0, kPackShared = 24.0;
  double best = -1;
  for (int64_t rows = round_up(columnwise ? m : smaller(kMaxTileRows, m), kTileRows); rows > 0;
       rows = columnwise ? 0 : shrink(rows, kTileRows)) {
    for (int64_t columns = round_up(smaller(kMaxTileColumns, n), kTileColumns); columns > 0;
         columns = shrink(columns, kTileColumns)) {
      const int64_t tiles = divide_up(m, rows) * divide_up(n, columns);
      const double cost = tiling_cost(tiles, workers, smaller(rows, m), smaller(columns, n),
                                      kReadColumn + (columnwise ? kPackOwn : 0.0));
      if (best < 0 || cost < best) {
        best = cost;
        plan.tile_m = rows;
        plan.tile_n = columns;
      }
    }
  }
  return best + (columnwise ? 0.0 : kPackShared * static_cast<double>(n) / static_cast<double>(workers));
}

/// Divides `lines` into even chunks of at most kPackedWords words, in whole panels.
inline int64_t chunk_lines(int64_t lines, int64_t line_words, int64_t panel) {
  const int64_t most = larger(panel, kPackedWords / larger(1, line_words) / panel * panel);
  return round_up(divide_up(lines, divide_up(lines, most)), panel);
}

/// Divides k into blocks; the result depends only on k.
inline void cut_k(MatmulPlan& plan, int64_t k, int64_t per_word) {
  plan.blocks = larger(1, divide_up(k, kBlockK * per_word));
  const bool is_long = plan.blocks >= kLongBlocks;
  if (is_long) plan.blocks = round_up(plan.blocks, kSegments);
  plan.block_k = round_up(divide_up(k, plan.blocks), 16);
  if (plan.block_k > 0) plan.blocks = divide_up(k, plan.block_k);
  plan.block_words = plan.block_k / per_word;
  plan.segment = is_long ? divide_up(plan.blocks, kSegments) : plan.blocks;
}

/// Like the cut_k above, but for a product that may be a part of a longer sum.
inline void cut_k(MatmulPlan& plan, const Matmul& args, int64_t per_word) {
  if (args.k_block == 0) return cut_k(plan, args.k, per_word);
  plan.block_k = args.k_block;
  plan.blocks = plan.segment = larger(1, divide_up(args.k, args.k_block));
  constexpr int64_t kStep = Bf16Words::kStepWords;
  plan.block_words = divide_up(args.k_block, per_word * kStep) * kStep;
}

/// True if blocks need fp32 sums outside C.
inline bool needs_sums(const MatmulPlan& plan, const Matmul& args) {
  return args.c_type != DType::kF32 && plan.blocks > 1;
}

/// Plans the split form, which is used for every long k and only then.
inline void plan_split(MatmulPlan& plan, const Matmul& args, int64_t workers) {
  const int64_t rows = smaller(args.m, kSplitRows);
  const auto even = [](int64_t lines, int64_t most, int64_t panel) {
    return round_up(divide_up(lines, divide_up(lines, most)), panel);
  };
  plan.form = Form::kSplit;
  plan.chunk_m = plan.tile_m = even(args.m, kSplitRows, kTileRows);
  plan.chunk_n = even(args.n, kSplitSums / rows / kTileColumns * kTileColumns, kTileColumns);
  plan.tile_n = smaller(kMaxTileColumns, plan.chunk_n);
  plan.column_parts =
      smaller(divide_up(workers * kSplitTasks, kSegments), divide_up(plan.chunk_n, plan.tile_n));
  plan.a_words = workers * 2 * plan.chunk_m * plan.block_words;
  plan.b_words = workers * plan.tile_n * plan.block_words;
  plan.sum_words = kSegments * smaller(args.m, plan.chunk_m) * plan.chunk_n;
}

/// Plans the row-wise form if it is suitable: op(a) has enough rows for all workers, at least one block of
/// op(b) fits, and op(b) is the smaller operand or is small while the rows of op(a) are still in a worker's
/// cache.
inline bool plan_rowwise(MatmulPlan& plan, const Matmul& args, int64_t workers) {
  const int64_t block_words = larger(1, plan.block_words * round_up(args.n, kTileColumns));
  const int64_t group = smaller(plan.blocks, kPackedWords / block_words);
  const bool small_by_rows = !args.a_transposed && plan.blocks * block_words <= kSmallWords;
  const bool sums = needs_sums(plan, args);
  if (group == 0 || args.m < workers * kRowwiseTasks * kTileRows) return false;
  if (!small_by_rows && args.m < args.n) return false;
  if (sums && (group < plan.blocks || plan.blocks * plan.block_words > kRowwiseSumWords)) return false;
  const int64_t panels = divide_up(args.m, kTileRows);
  const int64_t tasks = larger(workers * kRowwiseTasks, divide_up(panels, kMaxTileRows / kTileRows));
  plan.form = Form::kRowwise;
  plan.group = divide_up(plan.blocks, divide_up(plan.blocks, group));
  plan.row_tasks = smaller(panels, round_up(tasks, workers));
  plan.tile_m = plan.chunk_m = divide_up(panels, plan.row_tasks) * kTileRows;
  plan.tile_n = plan.chunk_n = round_up(args.n, kTileColumns);
  plan.row_blocks = sums ? plan.blocks : 1;
  plan.a_words = workers * plan.tile_m * plan.row_blocks * plan.block_words;
  plan.b_words = plan.group * block_words;
  if (sums) plan.sum_words = workers * plan.tile_m * kMaxTileColumns;
  return true;
}

/// Number of blocks of k that the shared form packs at once.
inline int64_t shared_group(const MatmulPlan& plan, int64_t per_word) {
  return smaller(plan.blocks, larger(1, kGroupK * per_word / larger(1, plan.block_k)));
}

/// Plans the shared or the column-wise form, whichever costs less.
inline void plan_large(MatmulPlan& plan, const Matmul& args, int64_t workers, int64_t per_word) {
  // A barrier costs about 5 microseconds.
  const double barrier = 4e5 / static_cast<double>(larger(1, args.k));
  const bool sums = needs_sums(plan, args);
  const int64_t a_block_words = larger(1, round_up(args.m, kTileRows) * plan.block_words);
  const int64_t columnwise_group = smaller(plan.blocks, kPackedWords / a_block_words);
  const double shared_cost = choose_tiles(plan, false, args.m, args.n, workers) + barrier;
  const bool may_be_columnwise =
      sums ? columnwise_group == plan.blocks && args.m <= kMaxColumnwiseSumRows : columnwise_group > 0;
  MatmulPlan columnwise = plan;
  if (may_be_columnwise && choose_tiles(columnwise, true, args.m, args.n, workers) <= shared_cost) {
    plan = columnwise;
    plan.form = Form::kColumnwise;
    // Up to 5 MiB, packing all of op(a) costs less than more barriers.
    plan.a_buffers = !sums && plan.blocks * a_block_words > kWholeWordsA && columnwise_group > 1 ? 2 : 1;
    plan.group =
        plan.a_buffers == 1 ? columnwise_group : smaller(divide_up(plan.blocks, 3), columnwise_group / 2);
    plan.chunk_m = round_up(args.m, kTileRows);
    plan.chunk_n = round_up(args.n, kTileColumns);
    plan.b_words = workers * plan.tile_n * plan.block_words;
  } else {
    plan.group = shared_group(plan, per_word);
    plan.chunk_m = chunk_lines(args.m, plan.group * plan.block_words, kTileRows);
    plan.chunk_n = chunk_lines(args.n, plan.group * plan.block_words, kTileColumns);
    plan.b_words = plan.chunk_n * plan.group * plan.block_words;
  }
  plan.a_words = plan.chunk_m * plan.group * plan.block_words * plan.a_buffers;
  plan.sums_per_worker = plan.group == plan.blocks;
  if (sums)
    plan.sum_words = plan.sums_per_worker ? workers * plan.tile_m * plan.tile_n : plan.chunk_m * plan.chunk_n;
}

inline MatmulPlan plan_matmul(const Matmul& args, int32_t num_workers) {
  MatmulPlan plan{};
  const int64_t per_word = words_hold(args), workers = larger(1, num_workers);
  plan.a_buffers = 1;
  cut_k(plan, args, per_word);
  if (plan.segment < plan.blocks) {
    plan_split(plan, args, workers);
  } else if (!plan_rowwise(plan, args, workers)) {
    plan_large(plan, args, workers, per_word);
  }
  plan.a_words = round_up(plan.a_words, kAlignWords);
  plan.b_words = round_up(plan.b_words, kAlignWords);
  plan.sum_words = round_up(plan.sum_words, kAlignWords);
  return plan;
}

/// Maximum words of sums outside C, in any form.
inline int64_t most_sum_words(const MatmulPlan& plan, const Matmul& args, int64_t workers, int64_t per_word) {
  if (!needs_sums(plan, args)) return 0;
  const int64_t rows = round_up(args.m, kTileRows), columns = round_up(args.n, kTileColumns);
  const int64_t task_rows = smaller(rows, round_up(kMaxColumnwiseSumRows, kTileRows));
  const int64_t of_tasks = workers * task_rows * kMaxTileColumns, group = shared_group(plan, per_word);
  if (group == plan.blocks) return of_tasks;
  const int64_t lines = kPackedWords / larger(1, group * plan.block_words);
  return larger(of_tasks, smaller(rows, lines) * smaller(columns, lines));
}

/// Maximum words of the workspace in the split form.
inline int64_t most_split_words(const Matmul& args, int64_t workers) {
  const int64_t rows = smaller(args.m, kSplitRows), columns = round_up(args.n, kTileColumns);
  return workers * (2 * round_up(rows, kTileRows) + smaller(columns, kMaxTileColumns)) * kBlockK +
         kSegments * smaller(rows * columns, kSplitSums) + 3 * kAlignWords;
}

/// A bound of the workspace that grows with m, n and k, whatever the form. The workspace is planned for the
/// largest step, so fewer rows must not need more.
inline int64_t workspace_words(const Matmul& args, int32_t num_workers) {
  MatmulPlan plan{};
  const int64_t workers = larger(1, num_workers), per_word = words_hold(args);
  cut_k(plan, args, per_word);
  // If the product is a part of a longer sum, its block may be longer than its k.
  const int64_t rest = args.k_block > 0 ? kBlockK : 0;
  const int64_t words = divide_up(args.k, per_word) + 16 * divide_up(args.k, kBlockK * per_word) + rest;
  const auto most = [&](int64_t lines, int64_t panel, int64_t task_lines, int64_t task_words) {
    const int64_t own = workers * smaller(task_lines, round_up(lines, panel)) * smaller(words, task_words);
    return larger(own, smaller(round_up(lines, panel) * words, kPackedWords)) + kAlignWords;
  };
  const int64_t row_words = needs_sums(plan, args) ? kRowwiseSumWords : kBlockK;
  const int64_t other_forms = most(args.m, kTileRows, kMaxTileRows, row_words) +
                              most(args.n, kTileColumns, kMaxTileColumns, kBlockK) +
                              round_up(most_sum_words(plan, args, workers, per_word), kAlignWords);
  return plan.segment < plan.blocks ? larger(other_forms, most_split_words(args, workers)) : other_forms;
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
