#include "engine/run/token_sampler.h"

#include <algorithm>
#include <cmath>

#include "engine/base/philox.h"

namespace hawser::train {

int32_t sample_token(const float* logits, int64_t vocab, const SamplerConfig& config, uint64_t index,
                     std::vector<std::pair<double, int32_t>>* scratch) {
  if (config.temperature <= 0) return static_cast<int32_t>(std::max_element(logits, logits + vocab) - logits);

  auto& candidates = *scratch;
  candidates.clear();
  const double highest = *std::max_element(logits, logits + vocab);
  for (int64_t i = 0; i < vocab; ++i)
    candidates.emplace_back(std::exp((logits[i] - highest) / config.temperature), static_cast<int32_t>(i));
  const auto better = [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  };
  if (config.top_k > 0 || config.top_p < 1) std::sort(candidates.begin(), candidates.end(), better);
  if (config.top_k > 0 && config.top_k < vocab) candidates.resize(static_cast<size_t>(config.top_k));

  double total = 0;
  for (const auto& c : candidates) total += c.first;
  if (config.top_p < 1) {
    double kept = 0;
    size_t n = 0;
    while (n < candidates.size() && kept < config.top_p * total) kept += candidates[n++].first;
    candidates.resize(std::max<size_t>(n, 1));
    total = kept;
  }
  double u = philox_uniform(philox(config.seed, index, 0).v[0]) * total;
  for (const auto& c : candidates) {
    u -= c.first;
    if (u < 0) return c.second;
  }
  return candidates.back().second;
}

}  // namespace hawser::train
