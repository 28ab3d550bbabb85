// The parts that the forms of the matrix product share: packing a task's panels, prefetching, tiles of C, and
// columns that one worker packs and multiplies.
#pragma once

#include "kernels/cpu/matmul_plan.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kPackLinesA = 24;    ///< lines in one packing task, if contiguous in k
constexpr int64_t kPackColumnsA = 96;  ///< lines in one packing task, if side by side in memory
constexpr int64_t kPackPanelsB = 128 / kTileColumns;
constexpr int64_t kShortPanelWords = 4096;  ///< words of op(b): half of a first-level cache
constexpr int64_t kWarmWordsA = 65536;      ///< words of op(a) that are read several times: a quarter of a
                                            ///< second-level cache
/// The data to pack next are prefetched while the last of these rows are multiplied. If prefetched earlier,
/// they would be evicted from L2 before they are used.
constexpr int64_t kFetchingRows = 2 * kMaxTileRows;

/// A rectangle of C and the location of its lines in the packed panels.
struct Tile {
  int64_t row, rows, column, columns;
  const float* a;  ///< first panel of the tile, of one block
  const float* b;
  float* sums;  ///< fp32 sums of the tile, if not in C
  int64_t sums_ld;
};

/// Columns of op(b), of one block, that one worker packs and multiplies by packed rows; and the data that it
/// packs meanwhile and next.
struct Columns {
  int64_t row, rows, column, columns;  ///< rectangle of C
  int64_t block;
  const float* a;         ///< packed, of this block
  float* sums = nullptr;  ///< as in Tile
  int64_t sums_ld = 0;
  int64_t share_line = 0, share_panels = 0, share_block = 0;  ///< panels of op(a), of another block, to pack
  float* share = nullptr;                                     ///< destination of these panels
  int64_t next_column = 0, next_columns = 0, next_block = 0;
};

/// A block of k of the lines of one task.
struct Step {
  int64_t task, block;
};

template <class Words>
struct MatmulParts {
  const Matmul& args;
  Stream& stream;
  MatmulPlan plan;
  Operand op_a, op_b;
  int64_t pack_panels_a;  ///< panels in one packing task
  float *packed_a, *packed_b, *sums;

  MatmulParts(const Matmul& matmul, Stream& on)
      : args(matmul),
        stream(on),
        plan(plan_matmul(args, stream.num_workers)),
        op_a{args.a, args.lda, args.m, !args.a_transposed, args.a_type == DType::kF32},
        op_b{args.b, args.ldb, args.n, args.b_transposed, args.b_type == DType::kF32},
        pack_panels_a(larger(1, (op_a.k_contiguous ? kPackLinesA : kPackColumnsA) / kTileRows)),
        packed_a(static_cast<float*>(args.workspace)),
        packed_b(packed_a + plan.a_words),
        sums(plan.sum_words > 0 ? packed_b + plan.b_words : nullptr) {}

  int64_t block_begin(int64_t block) const { return block * plan.block_k; }
  int64_t block_length(int64_t block) const { return smaller(plan.block_k, args.k - block_begin(block)); }
  int64_t words_of(int64_t block) const {
    return divide_up(block_length(block), kStepValues<Words>) * Words::kStepWords;
  }
  int64_t micro_kernel_words(int64_t rows, int64_t columns, int64_t block) const {
    return divide_up(rows, kTileRows) * divide_up(columns, kTileColumns) * words_of(block);
  }

  /// Packs the panels of one block that begin at `line`.
  template <int W>
  void pack_panels(float* packed, const Operand& x, int64_t line, int64_t panels, int64_t block) const {
    pack<Words, W>(packed, plan.block_words * W, x, line, panels, block_begin(block), block_length(block));
  }

  /// Runs one packing task: `step` panels of one block of the chunk that begins at `line`.
  template <int W>
  void pack_task(float* packed, const Operand& x, int64_t task, int64_t step, int64_t line, int64_t panels,
                 int64_t first_block) const {
    const int64_t tasks_per_block = divide_up(panels, step);
    const int64_t block = task / tasks_per_block, panel = task % tasks_per_block * step;
    pack_panels<W>(packed + (block * panels + panel) * plan.block_words * W, x, line + panel * W,
                   smaller(step, panels - panel), first_block + block);
  }

  /// Returns the step that a worker packs after this step of its task, whose group of blocks is [first, end).
  /// It predicts the worker's next task by the assignment of the thread pool; a wrong prediction costs
  /// nothing. Returns no task at the end of the worker's share.
  Step step_after(Step step, int64_t first, int64_t end, int64_t tasks, int32_t worker) const {
    if (step.block + 1 < end) return {step.task, step.block + 1};
    const bool own_end = step.task + 1 == tasks * (worker + 1) / stream.num_workers;
    return {own_end ? tasks : step.task + 1, first};
  }

  /// Prefetches `lines` of an operand in some blocks, spread evenly over `words` words of the micro-kernel.
  Ahead ahead(const Operand& x, int64_t line, int64_t lines, int64_t block, int64_t blocks,
              int64_t words) const {
    Ahead next;
    const int64_t bytes = x.is_f32 ? 4 : 2, at_k = block_begin(block);
    const int64_t k = smaller(args.k, block_begin(block + blocks)) - at_k;
    next.row_bytes = x.ld * bytes;
    next.rows = x.k_contiguous ? lines : k;
    next.row_lines = next.left_in_row = divide_up((x.k_contiguous ? k : lines) * bytes, 64);
    next.at =
        static_cast<const char*>(x.data) + (x.k_contiguous ? line * x.ld + at_k : at_k * x.ld + line) * bytes;
    constexpr int64_t kStep = Words::kStepWords;
    next.words_between = larger(2, words / (next.rows * next.row_lines + 1) / kStep * kStep);
    return next;
  }

  void compute_columns(const Columns& c, int32_t worker) const {
    float* const b = packed_b + worker * plan.tile_n * plan.block_words;
    pack_panels<kTileColumns>(b, op_b, c.column, divide_up(c.columns, kTileColumns), c.block);
    const auto compute = [&](int64_t i, int64_t end, auto& next) {
      compute_tile({c.row + i, end - i, c.column, c.columns, c.a + i * plan.block_words, b,
                    c.sums == nullptr ? nullptr : c.sums + i * c.sums_ld, c.sums_ld},
                   c.block, next);
    };
    const auto without_last = [](int64_t rows) {
      return larger(0, rows - kFetchingRows) / kTileRows * kTileRows;
    };
    const int64_t late = without_last(c.rows), early = without_last(late);
    NothingAhead nothing;
    compute(0, early, nothing);
    if (c.share_panels > 0) {
      const int64_t lines = smaller(c.share_panels * kTileRows, args.m - c.share_line);
      const int64_t words = micro_kernel_words(late - early, c.columns, c.block);
      Ahead next = ahead(op_a, c.share_line, lines, c.share_block, 1, words);
      compute(early, late, next);
      pack_panels<kTileRows>(c.share, op_a, c.share_line, c.share_panels, c.share_block);
    } else {
      compute(early, late, nothing);
    }
    Ahead next;
    if (c.next_columns > 0) {
      const int64_t words = micro_kernel_words(c.rows - late, c.columns, c.block);
      next = ahead(op_b, c.next_column, c.next_columns, c.next_block, 1, words);
    }
    compute(late, c.rows, next);
  }

  /// Adds one block of k to a tile. The panel of the outer loop stays in L1 while those of the other operand
  /// stream through. The outer panel is that of op(a) or, if op(b)'s is short, that of op(b), with as much of
  /// op(a) as stays in cache between passes.
  template <class Next>
  void compute_tile(const Tile& tile, int64_t block, Next& next) const {
    const int64_t words = words_of(block);
    const auto at = [&](int64_t i, int64_t j) {
      micro_kernel_rows<typename Words::Product, Next>(
          static_cast<int>(smaller(kTileRows, tile.rows - i)), words, tile.a + i * plan.block_words,
          tile.b + j * plan.block_words, output(tile, i, j, block),
          static_cast<int>(smaller(kTileColumns, tile.columns - j)), next);
    };
    if (words * kTileColumns <= kShortPanelWords) {
      const int64_t warm = larger(1, kWarmWordsA / larger(1, words * kTileRows)) * kTileRows;
      for (int64_t first = 0; first < tile.rows; first += warm) {
        const int64_t end = smaller(first + warm, tile.rows);
        for (int64_t j = 0; j < tile.columns; j += kTileColumns) {
          for (int64_t i = first; i < end; i += kTileRows) at(i, j);
        }
      }
      return;
    }
    for (int64_t i = 0; i < tile.rows; i += kTileRows) {
      for (int64_t j = 0; j < tile.columns; j += kTileColumns) at(i, j);
    }
  }

  /// Returns where to sum a block. Blocks are summed in C if it is f32. Otherwise they are summed in the
  /// tile's sums until the last block produces the narrow C or, in the split form, for a whole segment.
  TileOutput output(const Tile& tile, int64_t i, int64_t j, int64_t block) const {
    const bool split = plan.form == Form::kSplit, first = block % plan.segment == 0;
    const bool sums_in_c = args.c_type == DType::kF32 && !split;
    const int64_t at = (tile.row + i) * args.ldc + tile.column + j;
    float* of_blocks = sums_in_c ? static_cast<float*>(args.c) + at : tile.sums;
    if (!sums_in_c && of_blocks != nullptr) of_blocks += i * tile.sums_ld + j;
    TileOutput out{};
    out.ld = out.add_ld = sums_in_c ? args.ldc : tile.sums_ld;
    out.out = of_blocks;
    out.add = first && !(sums_in_c && args.accumulate) ? nullptr : of_blocks;
    if (!sums_in_c && !split && block == plan.blocks - 1) {
      out.type = args.c_type;
      out.out = static_cast<char*>(args.c) + at * 2;
      out.ld = args.ldc;
    }
    if (block == 0 && args.bias != nullptr) {
      out.bias_type = args.bias_type;
      const int64_t bytes = args.bias_type == DType::kF32 ? 4 : 2;
      out.bias = static_cast<const char*>(args.bias) + (tile.column + j) * bytes;
    }
    return out;
  }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
