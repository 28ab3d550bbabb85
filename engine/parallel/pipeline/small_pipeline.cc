#include "engine/parallel/pipeline/small_pipeline.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/parallel/pipeline/schedule.h"

namespace hawser::parallel::pipeline {
namespace {

constexpr int64_t kMostStages = 8;
constexpr int64_t kMostOfAll = 48;   // maximum layers of all chunks together
constexpr int64_t kMostOfChunk = 6;  // maximum layers of one chunk

/// Returns the first and the last chunks of the model: `count` chunks, half from each end.
std::vector<int64_t> both_ends(const std::vector<int64_t>& layers, int64_t count) {
  std::vector<int64_t> ends(layers.begin(), layers.begin() + (count + 1) / 2);
  ends.insert(ends.end(), layers.end() - count / 2, layers.end());
  return ends;
}

int64_t few_micro_batches(int64_t given, int64_t stages, int64_t group, bool needs_power_of_two) {
  const int64_t twice = std::max<int64_t>(4, 2 * group);
  if (stages == 1 || needs_power_of_two)
    return std::min(given, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(twice))));
  return given <= twice ? given : twice + given % group;
}

}  // namespace

int64_t SmallPipeline::all_layers() const {
  return std::accumulate(layers.begin(), layers.end(), int64_t{0});
}

SmallPipeline small_pipeline(const PipelineConfig& config, int64_t stages, const std::vector<int64_t>& layers,
                             int64_t micro_batches, bool needs_power_of_two) {
  SmallPipeline small;
  small.given = small.layers = layers;
  small.stages = std::min(stages, kMostStages);
  small.configures_chunks = has_configured_chunks(config.schedule);
  const int64_t chunks = small.stages == 1 ? 1 : small.stages * std::min<int64_t>(config.chunks, 3);
  if (chunks < std::ssize(small.layers)) small.layers = both_ends(small.layers, chunks);
  const int64_t most = std::clamp<int64_t>(kMostOfAll / chunks, 1, kMostOfChunk);
  const int64_t largest = *std::max_element(small.layers.begin(), small.layers.end());
  for (int64_t& count : small.layers)
    count = std::max<int64_t>(1, count - std::max<int64_t>(0, largest - most));
  if (config.group > 0) small.group = small.stages + std::min<int64_t>(config.group - stages, 2);
  const int64_t group = config.group > 0 ? small.group : small.stages;
  small.micro_batches = few_micro_batches(micro_batches, small.stages, group, needs_power_of_two);
  return small;
}

}  // namespace hawser::parallel::pipeline
