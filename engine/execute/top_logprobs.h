// TopLogprobs: reads logits and keeps the likeliest tokens of each position with their log-probabilities:
// the rows of a teacher.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/execute/run.h"

namespace hawser::train {

/// A token id in the high half and the bits of its log-probability in the low half. Ranks combine such words
/// by a sum, to which all ranks except one add 0, and processes broadcast them.
using TokenLogprob = int64_t;
TokenLogprob token_logprob(int32_t id, float logprob);
int32_t id_of(TokenLogprob pair);
float logprob_of(TokenLogprob pair);

class TopLogprobs final : public LogitsReader {
 public:
  /// `pairs`: [rows, seq, top], the likeliest first; of equal logits, the lower id. Log-probabilities are
  /// NaN where logits are not finite.
  TopLogprobs(int64_t vocab, int64_t top, int64_t seq, TokenLogprob* pairs)
      : vocab_(vocab), top_(top), seq_(seq), pairs_(pairs) {}
  float* room(int64_t elements) override;
  void take(int64_t row, int64_t column, const float* logits) override;

 private:
  using Candidate = std::pair<float, int32_t>;  // the negated logit and the id: the smallest is the best

  const int64_t vocab_, top_, seq_;
  TokenLogprob* const pairs_;
  std::vector<float> room_;
  std::vector<Candidate> best_;
};

}  // namespace hawser::train
