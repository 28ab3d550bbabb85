// What ranks send when their hosts agree in a step: counts, sums, and log-probabilities of rows that they
// divide.
#pragma once

#include <cstdint>

#include "engine/config/resolved_config.h"
#include "engine/plan/instruction.h"

namespace hawser::train {

class AgreementBytes {
 public:
  explicit AgreementBytes(const config::ResolvedConfig& config) : c_(config) {}
  /// Bytes that each rank sends for the instruction; 0 if it is not such an agreement.
  int64_t of(const plan::Instruction& instruction) const;
  /// Numbers that all ranks sum in COUNT_TOKENS, and in the last GRAD_NORM at once and, of pairs, once more.
  int64_t count_words() const;
  int64_t norm_words() const;
  int64_t pair_summary() const;

 private:
  const config::ResolvedConfig& c_;
};

}  // namespace hawser::train
