// BatchConfig: how many rows a step has, and how ranks and micro-batches divide them. With a ramp, the size
// of a step follows from the rows consumed before it, so a checkpoint's data cursor determines it.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::config {

/// One size of a ramp: that of steps that begin at or after `from_rows` consumed rows.
struct RampSize {
  int64_t from_rows = 0;
  int64_t global_batch = 0;
};
void each_key(RampSize& r, auto&& visit) {
  visit("from_rows", r.from_rows);
  visit("global_batch", r.global_batch);
}

struct BatchConfig {
  int64_t micro_batch = 0;       ///< rows per micro-batch
  int64_t grad_accum_steps = 0;  ///< micro-batches per step; with a ramp: of the largest step
  int64_t sequence = 0;          ///< tokens per row (T)
  int64_t global_batch = 0;    ///< rows per step = micro_batch * grad_accum_steps * dp; with a ramp: the most
  std::vector<RampSize> ramp;  ///< from_rows begin with 0 and increase; empty: all steps have the same size

  /// Returns the rows of a step that begins after `consumed` rows.
  int64_t rows_after(int64_t consumed) const;
  /// Returns the micro-batches of a step of `rows`, one of the batch's sizes.
  int64_t micro_batches(int64_t rows) const { return rows / (global_batch / grad_accum_steps); }
  /// Returns the numbers of micro-batches of all steps, ascending and without repetition.
  std::vector<int64_t> all_micro_batches() const;
  bool has_sizes() const { return all_micro_batches().size() > 1; }
};
void each_key(BatchConfig& b, auto&& visit) {
  visit("micro_batch", b.micro_batch);
  visit("grad_accum_steps", b.grad_accum_steps);
  visit("sequence", b.sequence);
  visit("global_batch", b.global_batch);
  visit("ramp", b.ramp);
}

/// Returns the fewest steps of a ramp that consume `rows` rows or more.
int64_t steps_of_rows(const std::vector<RampSize>& ramp, int64_t rows);

}  // namespace hawser::config
