#include "engine/parallel/pipeline/stages.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/parallel/pipeline/balance.h"

namespace hawser::parallel::pipeline {
namespace {

/// Returns the stage of the next chunk above or below. Going up the model leads to the next stage, or to the
/// previous one on the second leg of a V.
plan::Neighbour neighbour(const Shape& shape, int64_t stage, int64_t place, bool above) {
  const int64_t other = above ? place + 1 : place - 1;
  if (other < 0 || other >= shape.stages * shape.chunks) return plan::Neighbour::kNone;
  if (stage_at(shape, other) == stage) return plan::Neighbour::kHere;
  const bool returns = is_v(shape.schedule) && place >= shape.stages;
  return above != returns ? plan::Neighbour::kNext : plan::Neighbour::kPrevious;
}

plan::ModelChunk make_chunk(const Shape& shape, const std::vector<int64_t>& layers, int64_t stage,
                            int64_t chunk) {
  const int64_t place = place_of(shape, stage, chunk), last = shape.stages * shape.chunks - 1;
  const auto before = layers.begin() + place;
  plan::ModelChunk c;
  c.begin = place == 0 ? 0 : 1 + static_cast<int32_t>(std::accumulate(layers.begin(), before, int64_t{0}));
  c.end = (place == 0 ? 1 : c.begin) + static_cast<int32_t>(*before) + (place == last ? 1 : 0);
  c.below = neighbour(shape, stage, place, false);
  c.above = neighbour(shape, stage, place, true);
  return c;
}

std::vector<int64_t> layers_of_chunks(const PipelineConfig& config, int64_t stages,
                                      const plan::Sizes& sizes) {
  if (!config.layers.empty()) return config.layers;
  std::vector<double> costs;
  for (size_t l = 0; l < sizes.block_forward.size(); ++l)
    costs.push_back(sizes.block_forward[l].flops + sizes.block_backward[l].flops);
  return balance(costs, sizes.embedding_forward.flops + sizes.embedding_backward.flops, sizes.loss.flops,
                 stages * config.chunks);
}

}  // namespace

plan::Stage make_stage(const Shape& shape, const std::vector<int64_t>& layers, int64_t stage) {
  plan::Stage made;
  for (int64_t chunk = 0; chunk < shape.chunks; ++chunk)
    made.chunks.push_back(make_chunk(shape, layers, stage, chunk));
  made.actions = actions(shape, stage);
  return made;
}

std::vector<int64_t> stage_of_blocks(const Shape& shape, const std::vector<int64_t>& layers) {
  std::vector<int64_t> stages{0};
  for (size_t place = 0; place < layers.size(); ++place)
    stages.insert(stages.end(), static_cast<size_t>(layers[place]),
                  stage_at(shape, static_cast<int64_t>(place)));
  stages.push_back(stages.back());
  return stages;
}

Division::Division(const PipelineConfig& config, int64_t stages, int64_t micro_batches,
                   const plan::Sizes& sizes)
    : shape_{config.schedule, stages, micro_batches, config.chunks, config.group > 0 ? config.group : stages},
      layers_(layers_of_chunks(config, stages, sizes)) {}

std::vector<int64_t> Division::stage_of() const {
  return shape_.stages > 1 ? stage_of_blocks(shape_, layers_) : std::vector<int64_t>();
}

plan::Stage Division::stage(int64_t stage, size_t sent_lifetime_actions, int64_t micro_batches) const {
  Shape shape = shape_;
  shape.micro_batches = micro_batches;
  plan::Stage made = make_stage(shape, layers_, stage);
  made.sent_lifetime_actions = sent_lifetime_actions;
  return made;
}

size_t Division::least_sent_lifetime() const {
  const size_t least = plan::Stage().sent_lifetime_actions;
  if (!is_v(shape_.schedule)) return least;
  return std::max(least, std::bit_floor(static_cast<size_t>(std::min<int64_t>(shape_.stages, 16))));
}

}  // namespace hawser::parallel::pipeline
