#include "engine/execute/top_logprobs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace hawser::train {

TokenLogprob token_logprob(int32_t id, float logprob) {
  return static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(id)) << 32 |
                              std::bit_cast<uint32_t>(logprob));
}

int32_t id_of(TokenLogprob pair) { return static_cast<int32_t>(static_cast<uint64_t>(pair) >> 32); }

float logprob_of(TokenLogprob pair) { return std::bit_cast<float>(static_cast<uint32_t>(pair)); }

float* TopLogprobs::room(int64_t elements) {
  if (room_.size() < static_cast<size_t>(elements)) room_.resize(static_cast<size_t>(elements));
  return room_.data();
}

void TopLogprobs::take(int64_t row, int64_t column, const float* logits) {
  const float max = *std::max_element(logits, logits + vocab_);
  double sum = 0;
  for (int64_t j = 0; j < vocab_; ++j) sum += static_cast<double>(std::exp(logits[j] - max));
  const double all = static_cast<double>(max) + std::log(sum);
  best_.clear();
  for (int64_t j = 0; j < vocab_; ++j) {
    const Candidate candidate{-logits[j], static_cast<int32_t>(j)};
    if (static_cast<int64_t>(best_.size()) == top_) {
      if (!(candidate < best_.front())) continue;
      std::pop_heap(best_.begin(), best_.end());
      best_.back() = candidate;
    } else {
      best_.push_back(candidate);
    }
    std::push_heap(best_.begin(), best_.end());
  }
  std::sort_heap(best_.begin(), best_.end());
  TokenLogprob* const out = pairs_ + (row * seq_ + column) * top_;
  for (int64_t i = 0; i < top_; ++i) {
    const auto [negated, id] = best_[static_cast<size_t>(i)];
    const double logprob = std::isfinite(all) && std::isfinite(negated)
                               ? std::min(0.0, -static_cast<double>(negated) - all)
                               : std::numeric_limits<double>::quiet_NaN();
    out[i] = token_logprob(id, static_cast<float>(logprob));
  }
}

}  // namespace hawser::train
