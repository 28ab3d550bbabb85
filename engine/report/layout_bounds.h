// LayoutBounds: what a layout needs at least, by closed forms, so that a search need not plan every layout.
#pragma once

#include "engine/cluster/cluster.h"
#include "engine/nn/model.h"
#include "engine/report/layout_space.h"

namespace hawser::train {

/// Bytes of the state of one parameter. 0 for what a config may keep elsewhere or not at all.
struct StateBytes {
  double weight = 0, gradient = 0, optimizer = 0;
};
StateBytes state_bytes(const config::ResolvedConfig& config);

class LayoutBounds {
 public:
  /// All must outlive this object. `model`: of one rank without parallelism.
  LayoutBounds(const nn::Model& model, const config::ResolvedConfig& base, const cluster::Cluster& cluster);

  /// No stage has fewer bytes of state than the mean of all stages. `zero_stage`: instead of the layout's.
  double least_bytes(const LayoutChoice& c, int64_t zero_stage) const;
  /// A step takes at least the arithmetic of a mean stage at the device's peak, and on average a stage waits
  /// until half of the others have computed the forward of a layer.
  double least_seconds(const LayoutChoice& c) const;
  /// Not a bound: with usual efficiencies and the schedule's bubble, to try promising layouts first.
  double likely_seconds(const LayoutChoice& c) const;

 private:
  const config::ResolvedConfig& base_;
  const cluster::Cluster& cluster_;
  const StateBytes state_;
  double parameters_, tokens_,
      ranks_flops_;     // of the model and of a step; FLOPs of a token without attention
  double layer_flops_;  // of a layer's forward, a token
  double peak_;
};

}  // namespace hawser::train
