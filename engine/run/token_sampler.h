// Token sampler: chooses the next token from logits.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::train {

struct SamplerConfig {
  double temperature = 1;  ///< 0: always the most probable token (lowest id among equals)
  int64_t top_k = 0;       ///< keeps this many of the most probable tokens; 0: all
  /// Keeps the most probable tokens until their sum reaches this (Holtzman et al., arXiv:1904.09751).
  double top_p = 1;
  uint64_t seed = 0;
};

/// Chooses token number `index` of a text. The result depends only on (logits, config, index). `scratch` is
/// reused between calls.
int32_t sample_token(const float* logits, int64_t vocab, const SamplerConfig& config, uint64_t index,
                     std::vector<std::pair<double, int32_t>>* scratch);

}  // namespace hawser::train
