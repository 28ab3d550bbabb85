// The matrix product: packed panels and a register-tile micro-kernel, after Goto and van de Geijn, "Anatomy
// of High-Performance Matrix Multiplication" (ACM TOMS 34(3), 2008). matmul_plan.h says how the work is cut,
// matmul_pack.h how panels are made, matmul_micro.h what happens in registers.
#include "kernels/cpu/level.h"
#include "kernels/cpu/matmul_plan.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kPackLinesA = 24;    ///< of one packing task, contiguous in k
constexpr int64_t kPackColumnsA = 96;  ///< of one packing task, side by side in memory
constexpr int64_t kPackPanelsB = 128 / kTileColumns;
constexpr int64_t kShortPanelWords = 4096;  ///< of op(b), half of a first-level cache
constexpr int64_t kWarmWordsA = 65536;  ///< of op(a), passed several times: a quarter of a second-level cache
/// What is packed next is fetched while the last of these are multiplied: fetched sooner, it would leave the
/// second-level cache again before its turn.
constexpr int64_t kFetchingRows = 2 * kMaxTileRows;
constexpr int64_t kFetchingColumns = 2 * kMaxTileColumns;
constexpr int64_t kFewPanelsB = 16;         ///< are packed one a task
constexpr int64_t kInlinePackWords = 8192;  ///< op(a) up to this size is packed without a parallel loop

/// A rectangle of C and where in the packed panels its lines stand.
struct Tile {
  int64_t row, rows, column, columns;
  const float* a;  ///< first panel of the tile, of one block
  const float* b;
  float* sums;  ///< fp32 sums of the tile beside a bf16 C, or null
  int64_t sums_ld;
};

template <class Words>
class MatmulRun {
 public:
  MatmulRun(const Matmul& args, Stream& stream)
      : args_(args), stream_(stream), plan_(plan_matmul(args, stream.num_workers)) {
    a_ = {args.a, args.lda, args.m, !args.a_transposed, args.a_type == DType::kF32};
    b_ = {args.b, args.ldb, args.n, args.b_transposed, args.b_type == DType::kF32};
    panels_a_ = larger(1, (a_.k_contiguous ? kPackLinesA : kPackColumnsA) / kTileRows);
    packed_a_ = static_cast<float*>(args.workspace);
    packed_b_ = packed_a_ + plan_.a_words;
    sums_ = plan_.sum_words > 0 ? packed_b_ + plan_.b_words : nullptr;
  }

  void run() {
    switch (plan_.form) {
      case Form::kShared:
        return run_shared();
      case Form::kColumnwise:
        return run_columnwise();
      case Form::kRowwise:
        return run_rowwise();
    }
  }

 private:
  int64_t block_begin(int64_t block) const { return block * plan_.block_k; }
  int64_t block_length(int64_t block) const { return smaller(plan_.block_k, args_.k - block_begin(block)); }
  int64_t words_of(int64_t block) const { return divide_up(block_length(block), Words::kPerWord); }
  int64_t micro_kernel_words(int64_t rows, int64_t columns, int64_t block) const {
    return divide_up(rows, kTileRows) * divide_up(columns, kTileColumns) * words_of(block);
  }

  /// One packing task: `step` panels of one block of the chunk that begins at `line`.
  template <int W>
  void pack_task(float* packed, const Operand& x, int64_t task, int64_t step, int64_t line, int64_t panels,
                 int64_t first_block) const {
    const int64_t tasks_per_block = divide_up(panels, step);
    const int64_t block = task / tasks_per_block, panel = task % tasks_per_block * step;
    const int64_t panel_words = plan_.block_words * W;
    pack<Words, W>(packed + (block * panels + panel) * panel_words, panel_words, x, line + panel * W,
                   smaller(step, panels - panel), block_begin(first_block + block),
                   block_length(first_block + block));
  }

  void run_shared() {
    const int64_t groups = divide_up(plan_.blocks, plan_.group);
    int64_t packed_a_at = -1, packed_b_at = -1;  // which chunk and group the packed operands hold
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

  void pack_chunk(int64_t ic, int64_t jc, int64_t first_block, bool pack_a, bool pack_b) {
    const int64_t blocks = smaller(plan_.group, plan_.blocks - first_block);
    const int64_t panels_a = divide_up(smaller(plan_.chunk_m, args_.m - ic), kTileRows);
    const int64_t panels_b = divide_up(smaller(plan_.chunk_n, args_.n - jc), kTileColumns);
    const int64_t tasks_a = pack_a ? blocks * divide_up(panels_a, panels_a_) : 0;
    const int64_t tasks_b = pack_b ? blocks * divide_up(panels_b, kPackPanelsB) : 0;
    parallel(stream_, tasks_a + tasks_b, [&](int64_t task, int32_t) {
      if (task < tasks_a) {
        pack_task<kTileRows>(packed_a_, a_, task, panels_a_, ic, panels_a, first_block);
      } else {
        pack_task<kTileColumns>(packed_b_, b_, task - tasks_a, kPackPanelsB, jc, panels_b, first_block);
      }
    });
  }

  /// Neighbouring tasks share rows of op(a); the columns of op(b) of a chunk come again for every row of
  /// tiles, which costs least where they stay in the second-level cache.
  void compute_chunk(int64_t ic, int64_t jc, int64_t first_block) {
    const int64_t m = smaller(plan_.chunk_m, args_.m - ic), n = smaller(plan_.chunk_n, args_.n - jc);
    const int64_t panels_a = divide_up(m, kTileRows), panels_b = divide_up(n, kTileColumns);
    const int64_t tiles_m = divide_up(m, plan_.tile_m), tiles_n = divide_up(n, plan_.tile_n);
    const int64_t blocks = smaller(plan_.group, plan_.blocks - first_block);
    parallel(stream_, tiles_m * tiles_n, [&](int64_t task, int32_t worker) {
      const int64_t i = task / tiles_n * plan_.tile_m, j = task % tiles_n * plan_.tile_n;
      Tile tile{ic + i,  smaller(plan_.tile_m, m - i),
                jc + j,  smaller(plan_.tile_n, n - j),
                nullptr, nullptr,
                nullptr, 0};
      if (sums_ != nullptr) {
        tile.sums_ld = plan_.sums_per_worker ? plan_.tile_n : plan_.chunk_n;
        tile.sums = plan_.sums_per_worker ? sums_ + worker * plan_.tile_m * plan_.tile_n
                                          : sums_ + i * plan_.chunk_n + j;
      }
      for (int64_t block = 0; block < blocks; ++block) {
        tile.a = packed_a_ + (block * panels_a * kTileRows + i) * plan_.block_words;
        tile.b = packed_b_ + (block * panels_b * kTileColumns + j) * plan_.block_words;
        NothingAhead nothing;
        compute_tile(tile, first_block + block, nothing);
      }
    });
  }

  void run_columnwise() {
    for (int64_t first = 0; first < plan_.blocks; first += plan_.group) {
      const int64_t blocks = smaller(plan_.group, plan_.blocks - first);
      if (first == 0 || plan_.a_buffers == 1) pack_a_of(first, blocks);
      parallel(stream_, column_tasks(), [&](int64_t task, int32_t worker) {
        for (int64_t block = first; block < first + blocks; ++block)
          compute_columns({task, block}, worker, first);
      });
    }
  }

  /// Where op(a) of one block of the column-wise form is packed.
  float* packed_a(int64_t block) const {
    const int64_t place = block % (plan_.group * plan_.a_buffers);
    return packed_a_ + place * plan_.chunk_m * plan_.block_words;
  }

  /// op(a) of some blocks.
  void pack_a_of(int64_t first, int64_t blocks) {
    const int64_t panels = divide_up(args_.m, kTileRows), tasks = blocks * divide_up(panels, panels_a_);
    const auto pack_a = [&](int64_t task, int32_t) {
      pack_task<kTileRows>(packed_a(first), a_, task, panels_a_, 0, panels, first);
    };
    if (args_.m * args_.k <= kInlinePackWords) {
      for (int64_t task = 0; task < tasks; ++task) pack_a(task, 0);
    } else {
      parallel(stream_, tasks, pack_a);
    }
  }

  /// Tasks of the column-wise form. Every worker begins with as many columns, in panels, as any other has or
  /// one panel less (its last task is then empty): tiles of tile_n columns, of which the last is handed out a
  /// panel at a time, so that workers end together.
  int64_t panels_before(int64_t worker) const {
    return divide_up(args_.n, kTileColumns) * worker / stream_.num_workers;
  }
  int64_t most_panels() const {  // of one worker
    return divide_up(divide_up(args_.n, kTileColumns), stream_.num_workers);
  }
  int64_t wide_tasks() const { return (most_panels() - 1) / tile_panels(); }  // of one worker
  int64_t worker_tasks() const { return wide_tasks() + most_panels() - wide_tasks() * tile_panels(); }
  int64_t tile_panels() const { return plan_.tile_n / kTileColumns; }
  int64_t column_tasks() const { return worker_tasks() * stream_.num_workers; }
  int64_t first_column(int64_t task) const {
    const int64_t worker = task / worker_tasks(), own = task % worker_tasks();
    const int64_t wide = smaller(own, wide_tasks());
    const int64_t panel = panels_before(worker) + wide * tile_panels() + own - wide;
    return smaller(args_.n, smaller(panel, panels_before(worker + 1)) * kTileColumns);
  }

  /// A block of k of the lines of one task.
  struct Step {
    int64_t task, block;
  };
  /// What a worker packs after this step of its task, whose group of blocks is [first, end): a guess (the
  /// worker's next task, as the thread pool hands them out), which costs nothing where it is wrong. No task
  /// at the end of the worker's own.
  Step step_after(Step step, int64_t first, int64_t end, int64_t tasks, int32_t worker) const {
    if (step.block + 1 < end) return {step.task, step.block + 1};
    const bool own_end = step.task + 1 == tasks * (worker + 1) / stream_.num_workers;
    return {own_end ? tasks : step.task + 1, first};
  }

  /// Fetches `lines` of an operand in some blocks, spread evenly over `words` words of the micro-kernel.
  Ahead ahead(const Operand& x, int64_t line, int64_t lines, int64_t block, int64_t blocks,
              int64_t words) const {
    Ahead next;
    const int64_t bytes = x.is_f32 ? 4 : 2, at_k = block_begin(block);
    const int64_t k = smaller(args_.k, block_begin(block + blocks)) - at_k;
    next.row_bytes = x.ld * bytes;
    next.rows = x.k_contiguous ? lines : k;
    next.row_lines = next.left_in_row = divide_up((x.k_contiguous ? k : lines) * bytes, 64);
    next.at =
        static_cast<const char*>(x.data) + (x.k_contiguous ? line * x.ld + at_k : at_k * x.ld + line) * bytes;
    next.words_between = larger(2, words / (next.rows * next.row_lines + 1));
    return next;
  }

  /// Rows before the last kFetchingRows, in panels.
  static int64_t without_last(int64_t rows) {
    return larger(0, rows - kFetchingRows) / kTileRows * kTileRows;
  }

  /// One step of the column-wise form, of a group of blocks that begins at `first`.
  void compute_columns(Step step, int32_t worker, int64_t first) const {
    const int64_t j = first_column(step.task), columns = first_column(step.task + 1) - j, block = step.block;
    float* const b = packed_b_ + worker * plan_.tile_n * plan_.block_words;
    float* const sums = sums_ != nullptr ? sums_ + worker * plan_.tile_m * plan_.tile_n : nullptr;
    pack<Words, kTileColumns>(b, plan_.block_words * kTileColumns, b_, j, divide_up(columns, kTileColumns),
                              block_begin(block), block_length(block));
    const auto compute = [&](int64_t i, int64_t end, auto& next) {
      compute_tile({i, end - i, j, columns, packed_a(block) + i * plan_.block_words, b,
                    sums == nullptr ? nullptr : sums + i * plan_.tile_n, plan_.tile_n},
                   block, next);
    };
    const int64_t late = without_last(args_.m), early = without_last(late);
    NothingAhead nothing;
    compute(0, early, nothing);
    // This task's share of op(a) of the next group, which so is packed without being waited for.
    const int64_t with = plan_.a_buffers > 1 ? block + plan_.group : plan_.blocks;
    const int64_t panels = divide_up(args_.m, kTileRows), panel = panels * j / args_.n;
    const int64_t share = with < plan_.blocks ? panels * (j + columns) / args_.n - panel : 0;
    if (share > 0) {
      const int64_t line = panel * kTileRows, lines = smaller(share * kTileRows, args_.m - line);
      Ahead next = ahead(a_, line, lines, with, 1, micro_kernel_words(late - early, columns, block));
      compute(early, late, next);
      pack<Words, kTileRows>(packed_a(with) + line * plan_.block_words, plan_.block_words * kTileRows, a_,
                             line, share, block_begin(with), block_length(with));
    } else {
      compute(early, late, nothing);
    }
    const int64_t end = smaller(first + plan_.group, plan_.blocks), tasks = column_tasks();
    const Step after = step_after(step, first, end, tasks, worker);
    Ahead next;
    if (after.task < tasks) {
      const int64_t from = first_column(after.task), lines = first_column(after.task + 1) - from;
      next = ahead(b_, from, lines, after.block, 1, micro_kernel_words(args_.m - late, columns, block));
    }
    compute(late, args_.m, next);
  }

  void run_rowwise() {
    const int64_t panels = divide_up(args_.n, kTileColumns), step = panels < kFewPanelsB ? 1 : kPackPanelsB;
    for (int64_t first = 0; first < plan_.blocks; first += plan_.group) {
      const int64_t blocks = smaller(plan_.group, plan_.blocks - first);
      parallel(stream_, blocks * divide_up(panels, step), [&](int64_t task, int32_t) {
        pack_task<kTileColumns>(packed_b_, b_, task, step, 0, panels, first);
      });
      parallel(stream_, plan_.row_tasks, [&](int64_t task, int32_t worker) {
        for (int64_t block = first; block < first + blocks; block += plan_.row_blocks)
          compute_rows({task, block}, worker, first);
      });
    }
  }

  /// Tasks of the row-wise form have as many panels of rows, or one more.
  int64_t first_row(int64_t task) const {
    return smaller(args_.m, divide_up(args_.m, kTileRows) * task / plan_.row_tasks * kTileRows);
  }

  /// One step of the row-wise form, of row_blocks blocks, in a group that begins at `first`. Where these are
  /// more than one, they are added tile by tile, so that the sums beside C are few.
  void compute_rows(Step step, int32_t worker, int64_t first) const {
    const int64_t i = first_row(step.task), rows = first_row(step.task + 1) - i;
    const int64_t block_words_a = plan_.tile_m * plan_.block_words;
    float* const a = packed_a_ + worker * plan_.row_blocks * block_words_a;
    const int64_t blocks_end = step.block + plan_.row_blocks;
    for (int64_t block = step.block; block < blocks_end; ++block) {
      pack<Words, kTileRows>(a + (block - step.block) * block_words_a, plan_.block_words * kTileRows, a_, i,
                             divide_up(rows, kTileRows), block_begin(block), block_length(block));
    }
    float* const sums = sums_ != nullptr ? sums_ + worker * plan_.tile_m * kMaxTileColumns : nullptr;
    const auto compute = [&](int64_t j, int64_t end, auto& next) {
      for (; j < end; j += kMaxTileColumns) {
        for (int64_t block = step.block; block < blocks_end; ++block) {
          const float* const b = packed_b_ + ((block - first) * plan_.tile_n + j) * plan_.block_words;
          compute_tile({i, rows, j, smaller(kMaxTileColumns, end - j),
                        a + (block - step.block) * block_words_a, b, sums, kMaxTileColumns},
                       block, next);
        }
      }
    };
    const int64_t late = larger(0, args_.n - kFetchingColumns) / kMaxTileColumns * kMaxTileColumns;
    NothingAhead nothing;
    compute(0, late, nothing);
    const int64_t end = smaller(first + plan_.group, plan_.blocks);
    const Step after = step_after({step.task, blocks_end - 1}, first, end, plan_.row_tasks, worker);
    Ahead next;
    if (after.task < plan_.row_tasks) {
      const int64_t from = first_row(after.task), lines = first_row(after.task + 1) - from;
      next = ahead(a_, from, lines, after.block, plan_.row_blocks,
                   plan_.row_blocks * micro_kernel_words(rows, args_.n - late, step.block));
    }
    compute(late, args_.n, next);
  }

  /// Adds one block of k to a tile. The panel of the outer loop stays in L1 while those of the other operand
  /// pass: the one of op(a), or of op(b) where it is short, and then as much of op(a) as stays warm between
  /// its passes.
  template <class Next>
  void compute_tile(const Tile& tile, int64_t block, Next& next) const {
    const int64_t words = words_of(block);
    const auto at = [&](int64_t i, int64_t j) {
      micro_kernel_rows<Words, Next>(static_cast<int>(smaller(kTileRows, tile.rows - i)), words,
                                     tile.a + i * plan_.block_words, tile.b + j * plan_.block_words,
                                     output(tile, i, j, block),
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

  TileOutput output(const Tile& tile, int64_t i, int64_t j, int64_t block) const {
    const bool first = block == 0, last = block == plan_.blocks - 1;
    const int64_t at = (tile.row + i) * args_.ldc + tile.column + j;
    TileOutput out{};
    if (args_.c_type == DType::kF32) {
      float* c = static_cast<float*>(args_.c) + at;
      out.out = c;
      out.ld = out.add_ld = args_.ldc;
      out.add = first && !args_.accumulate ? nullptr : c;
    } else {
      float* sums = tile.sums == nullptr ? nullptr : tile.sums + i * tile.sums_ld + j;
      out.out = last ? static_cast<void*>(static_cast<uint16_t*>(args_.c) + at) : sums;
      out.ld = last ? args_.ldc : tile.sums_ld;
      out.is_bf16 = last;
      out.add = first ? nullptr : sums;
      out.add_ld = tile.sums_ld;
    }
    if (first && args_.bias != nullptr) {
      out.bias_is_bf16 = args_.bias_type == DType::kBf16;
      out.bias = static_cast<const char*>(args_.bias) + (tile.column + j) * (out.bias_is_bf16 ? 2 : 4);
    }
    return out;
  }

  const Matmul& args_;
  Stream& stream_;
  MatmulPlan plan_;
  Operand a_, b_;
  int64_t panels_a_;
  float* packed_a_;
  float* packed_b_;
  float* sums_;
};

}  // namespace

void matmul(const Matmul& args, Stream& stream) {
  if (args.m <= 0 || args.n <= 0) return;
  if (multiplies_bf16(args)) {
    MatmulRun<Bf16Words>(args, stream).run();
  } else {
    MatmulRun<F32Words>(args, stream).run();
  }
}

int64_t matmul_workspace_bytes(const Matmul& args, int32_t num_workers) {
  if (args.m <= 0 || args.n <= 0) return 0;
  return 4 * workspace_words(args, num_workers);
}

}  // namespace hawser::kernels::HWS_LEVEL
