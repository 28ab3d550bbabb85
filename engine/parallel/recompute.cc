#include "engine/parallel/recompute.h"

#include <algorithm>

namespace hawser::parallel {

nn::CompressSet compress_set(const std::vector<std::string>& arrays) {
  const auto has = [&](const char* array) { return std::count(arrays.begin(), arrays.end(), array) > 0; };
  return {has("qkv"), has("attention"), has("mlp_hidden")};
}

RecomputeConfig recompute_config(RecomputePolicy policy, const std::vector<std::string>& arrays,
                                 int64_t every) {
  const auto has = [&](const char* array) { return std::count(arrays.begin(), arrays.end(), array) > 0; };
  switch (policy) {
    case RecomputePolicy::kOff:
      break;
    case RecomputePolicy::kFull:
      return {nn::RecomputeSet::all()};
    case RecomputePolicy::kSelective:
      return {{has("qkv"), has("attention"), has("mlp_hidden") || arrays.empty(), false}};
    case RecomputePolicy::kEvery:
      return {nn::RecomputeSet::all(), every};
  }
  return {};
}

void add_recompute_segments(const RecomputeConfig& config, const plan::Sizes& sizes, plan::Stage* stage) {
  if (!config.remakes.any()) return;
  const auto every = static_cast<int32_t>(config.every);
  for (const plan::ModelChunk& chunk : stage->chunks) {
    const auto [lowest, end] = sizes.blocks_with_backward(chunk);
    for (int32_t begin = lowest; begin < end; begin += every)
      stage->recompute.push_back({begin, std::min(begin + every, end)});
  }
}

}  // namespace hawser::parallel
