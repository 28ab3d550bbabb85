#include "engine/proof/shrink_pipeline.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "engine/assembly/engine_plans.h"
#include "engine/nn/model.h"

namespace hawser::train {
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

int64_t few_micro_batches(const config::ResolvedConfig& config, int64_t stages, int64_t group) {
  const int64_t given = config.batch.grad_accum_steps, twice = std::max<int64_t>(4, 2 * group);
  const bool tree = config.zero.sum_order == parallel::SumOrder::kTree;  // a tree needs a power of two
  if (stages == 1 || tree)
    return std::min(given, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(twice))));
  return given <= twice ? given : twice + given % group;
}

/// Returns the layers of each chunk as the planner divides them.
std::vector<int64_t> chunk_layers(const config::ResolvedConfig& config) {
  if (config.mesh.pp == 1) return {config.model.layers};
  if (!config.pipeline.layers.empty()) return config.pipeline.layers;
  const nn::Model model = model_of(config);
  config::ResolvedConfig plain = config;
  plain.offload = {};  // not every device has it
  const Target target{&choose_kernels(config), 1, true, false, 0};
  std::map<int32_t, int64_t> layers;  // keyed by the first block of a chunk
  for (const EnginePlans& plans : make_stage_plans(model, plain, target, true))
    for (const plan::ModelChunk& chunk : plans.stage.chunks)
      for (int32_t block = chunk.begin; block < chunk.end; ++block)
        layers[chunk.begin] += block >= 1 && block <= config.model.layers ? 1 : 0;
  std::vector<int64_t> all;
  for (const auto& [begin, count] : layers) all.push_back(count);
  return all;
}

}  // namespace

int64_t SmallPipeline::all_layers() const {
  return std::accumulate(layers.begin(), layers.end(), int64_t{0});
}

SmallPipeline shrink_pipeline(const config::ResolvedConfig& config) {
  SmallPipeline small;
  small.given = small.layers = chunk_layers(config);
  small.stages = std::min(config.mesh.pp, kMostStages);
  const int64_t chunks = small.stages == 1 ? 1 : small.stages * std::min<int64_t>(config.pipeline.chunks, 3);
  if (chunks < std::ssize(small.layers)) small.layers = both_ends(small.layers, chunks);
  const int64_t most = std::clamp<int64_t>(kMostOfAll / chunks, 1, kMostOfChunk);
  const int64_t largest = *std::max_element(small.layers.begin(), small.layers.end());
  for (int64_t& layers : small.layers)
    layers = std::max<int64_t>(1, layers - std::max<int64_t>(0, largest - most));
  const int64_t given = config.pipeline.group;
  if (given > 0) small.group = small.stages + std::min<int64_t>(given - config.mesh.pp, 2);
  const int64_t group = given > 0 ? small.group : small.stages;
  small.micro_batches = few_micro_batches(config, small.stages, group);
  return small;
}

}  // namespace hawser::train
