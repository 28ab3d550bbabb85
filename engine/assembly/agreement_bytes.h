// AgreementBytes: sizes of the small host all-reduces and gathers of a step (COUNT_TOKENS, OBJECTIVE, the
// final GRAD_NORM), so that the plan's traffic includes them.
#pragma once

#include <cstdint>

#include "engine/config/resolved_config.h"
#include "engine/execute/step_objective.h"
#include "engine/plan/instruction.h"

namespace hawser::train {

class AgreementBytes {
 public:
  /// `column_ranks`: ranks that divide the columns of each row. `maxima`: how many maxima ranks gather, of
  /// fp8 operands and of attention scores.
  AgreementBytes(const config::ResolvedConfig& config, int64_t column_ranks, int64_t maxima)
      : c_(config), column_ranks_(column_ranks), maxima_(maxima) {}
  /// Returns the bytes that each rank sends for the instruction; 0 if it makes no host all-reduce.
  int64_t of(const plan::Instruction& instruction) const;
  /// Returns how many numbers all ranks sum in COUNT_TOKENS.
  int64_t count_words() const;
  /// Returns how many numbers all ranks sum in the final GRAD_NORM.
  int64_t norm_words() const;
  /// Returns the bytes that each rank sends in the final GRAD_NORM to gather the maxima.
  int64_t gathered_bytes() const;

 private:
  ObjectiveWords objective_words() const;

  const config::ResolvedConfig& c_;
  const int64_t column_ranks_, maxima_;
};

}  // namespace hawser::train
