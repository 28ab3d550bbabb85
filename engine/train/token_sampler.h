// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::train {

struct SamplerConfig {
  double temperature = 1;  ///< 0: the most probable token, the lowest id among equals
  int64_t top_k = 0;       ///< 0: all
  double top_p =
      1;  ///< keep the most probable tokens until their sum reaches this (Holtzman et al., arXiv 1904.09751)
  uint64_t seed = 0;
};

/// Token number `index` of a text: a pure function of (logits, config, index). `scratch` is reused between
/// calls.
int32_t sample_token(const float* logits, int64_t vocab, const SamplerConfig& config, uint64_t index,
                     std::vector<std::pair<double, int32_t>>* scratch);

}  // namespace hawser::train
