// Offload formulas: the bytes that a rank copies out of its arena and back in a step, by closed form. The
// plan report prints them beside the bytes of the plan's copies. They follow from the numbers of parameters,
// from the model's blocks and from the config, not from the plan's slots; only the size of one block's
// activations is that of the dry run. Papers: ZeRO-Offload (arXiv:2101.06840), ZeRO-Infinity
// (arXiv:2104.07857).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/parallel/parallel_config.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// What decides the bytes.
struct MoveTerms {
  const ShardLayout& layout;  ///< of the rank
  const DataParallelStrategy& strategy;
  const ParallelConfig& config;
  int64_t micro_batches = 1;
  bool loss_reads_table = false;
  int32_t first_trainable = 0;  ///< lowest block with a backward
};

/// What the copies of one cargo move in a step.
struct Moves {
  plan::Cargo cargo = plan::Cargo::kActivations;
  plan::Space space = plan::Space::kHost;
  int64_t out = 0, back = 0;  ///< bytes of the plan's instructions, from the arena and to it
  /// Further bytes in both directions, because a disk transfers whole pages.
  int64_t pages = 0;
  /// The closed form of `out` and `back`. Empty if none is known that gives these bytes: of activations and
  /// weights in a pipeline, of activations under recompute of several blocks, and of weights that are used
  /// again so soon that one fetch serves both uses.
  std::string formula;
};

/// Returns one entry for each cargo that the training plan moves.
std::vector<Moves> moves_of(const plan::Plan& train, const MoveTerms& terms);

}  // namespace hawser::parallel
