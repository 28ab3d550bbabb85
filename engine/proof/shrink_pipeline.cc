#include "engine/proof/shrink_pipeline.h"

#include <map>

#include "engine/assembly/engine_plans.h"
#include "engine/nn/model.h"

namespace hawser::train {
namespace {

/// Returns the layers of each chunk as the planner divides them.
std::vector<int64_t> chunk_layers(const config::ResolvedConfig& config) {
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

parallel::pipeline::SmallPipeline shrink_pipeline(const config::ResolvedConfig& config,
                                                  int64_t micro_batches) {
  const int64_t stages = strategies_of(config).stages();
  const std::vector<int64_t> layers =
      stages == 1 ? std::vector<int64_t>{config.model.layers} : chunk_layers(config);
  const bool tree = config.zero.sum_order == parallel::SumOrder::kTree;  // a tree needs a power of two
  return parallel::pipeline::small_pipeline(config.pipeline, stages, layers, micro_batches, tree);
}

}  // namespace hawser::train
