// BlockCosts: what one micro-batch costs in each block of a model that ranks divide by tp and cp. It is
// measured on a small plan, for all layouts that divide the model in this way.
#pragma once

#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/config/resolved_config.h"

namespace hawser::train {

/// Seconds of the compute lane without launches, and bytes of the arena.
struct BlockCosts {
  double forward = 0, backward = 0;
  double recompute = 0;  ///< before the backward, even before its gradient has arrived
  double weights = 0;    ///< of the weight pass, if the backward has two passes; `backward` is the input pass
  double norm = 0, update = 0;  ///< by a rank that has all of the state
  double flops = 0;             ///< forward and backward, by which a pipeline divides layers
  double saved = 0;             ///< activations that a forward leaves for the block's backward
  double weight = 0, gradient = 0, optimizer = 0;

  bool operator==(const BlockCosts&) const = default;
};

struct MeasuredBlocks {
  std::vector<BlockCosts> blocks;  ///< embedding, layers, head
  /// Bytes of the fullest stage that are neither state nor activations between forward and backward, such as
  /// workspaces.
  double transient = 0;
  /// True if all layers cost the same, except the first and last of each chunk, which compute other sums of
  /// the residual stream. False if there are no other layers.
  bool equal_layers = false;
};

/// Measures the first micro-batch of a config.
/// `imbalance`: as for Forecast.
MeasuredBlocks measure_blocks(const config::ResolvedConfig& config, const cluster::Cluster& cluster,
                              double imbalance);

}  // namespace hawser::train
