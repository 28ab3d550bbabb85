// LayoutBounds: lower bounds on a layout's bytes and seconds, so that a search skips many. A small plan with
// the layout's tp, cp, ep, micro-batch and recomputation measures what a block costs (block_costs.h); how the
// layout divides blocks among stages and state among ranks follows from its degrees.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/nn/model.h"
#include "engine/report/block_costs.h"
#include "engine/report/layout_space.h"

namespace hawser::train {

/// Bytes that the fullest stage needs at least.
struct LeastBytes {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double all() const { return weights + gradients + optimizer + activations; }
  /// What takes most of them, as in reports.
  const char* largest() const;
};

/// Bytes of the model's state on one rank that keeps all of it; 0 for what a config may keep elsewhere.
struct ModelState {
  BlockCosts others, experts;
};

class LayoutBounds {
 public:
  /// All must outlive this object. `model`: of one rank without parallelism. `imbalance`: as for Forecast.
  LayoutBounds(const nn::Model& model, const config::ResolvedConfig& base, const cluster::Cluster& cluster,
               const LayoutSpace& space, double imbalance = 1);

  /// Measures what the bounds of these layouts need. If costs cannot be measured, the bounds are closed
  /// forms, which are lower.
  void measure(const std::vector<const LayoutChoice*>& choices);

  /// `zero_stage`: instead of the layout's.
  LeastBytes least_bytes(const LayoutChoice& c, int64_t zero_stage) const;
  /// An estimate, not a bound: the least bytes plus what the fullest stage of a small plan needs beyond its
  /// state and activations. Layouts that probably fit are tried first.
  double likely_bytes(const LayoutChoice& c) const;
  /// A stage computes its share of all micro-batches. It begins after the stages before it have passed on the
  /// first micro-batch, and they end after its last backward. Updates follow.
  double least_seconds(const LayoutChoice& c) const;
  /// Micro-batches of each stage in a step.
  int64_t micro_batches(const LayoutChoice& c) const;
  /// True if the costs of the layout's blocks were measured. Otherwise bounds and estimates of the layout are
  /// far below its bytes and seconds.
  bool is_measured(const LayoutChoice& c) const { return measured(c) != nullptr; }
  /// Not a bound: with an estimate of transfers between data-parallel ranks, to try promising layouts first.
  double likely_seconds(const LayoutChoice& c) const { return likely_seconds(c, least_seconds(c)); }
  /// `least_seconds`: what least_seconds(c) returned.
  double likely_seconds(const LayoutChoice& c, double least_seconds) const;

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool>;
  /// Sums of the blocks of one chunk.
  struct Place {
    BlockCosts costs;
    int64_t stage = 0;
  };

  static Key key_of(const LayoutChoice& c);
  /// Returns the number of ranks that share the state of an expert.
  static double expert_shards(const LayoutChoice& c);
  /// Returns the largest number of ranks that share the state of a parameter.
  double most_shards(const LayoutChoice& c) const;
  std::shared_ptr<const MeasuredBlocks> measured(const LayoutChoice& c) const;
  std::shared_ptr<const MeasuredBlocks> measure_one(const LayoutChoice& c) const;
  /// Returns the chunks of the pipeline in the model's order; none without measured costs.
  std::vector<Place> places(const LayoutChoice& c) const;
  /// Returns the bytes of the fullest stage. `shares_gradients`: the ranks of a shard group divide gradients.
  LeastBytes stage_bytes(const LayoutChoice& c, int64_t zero_stage, bool shares_gradients) const;
  LeastBytes closed_bytes(const LayoutChoice& c, int64_t zero_stage) const;
  double closed_seconds(const LayoutChoice& c) const;

  const config::ResolvedConfig& base_;
  const cluster::Cluster& cluster_;
  const LayoutSpace& space_;
  const double imbalance_;
  const bool measures_, trains_all_, offloads_;
  bool equal_layers_ = false;   // kMeasuredLayers stand for all
  double parameters_, tokens_;  // of the model; of a step
  double ranks_flops_;          // FLOPs of a token, at least: sliding windows do not count as attention
  double layer_flops_;          // of a layer's forward, a token
  double peak_;
  ModelState state_;
  std::map<Key, std::shared_ptr<const MeasuredBlocks>> measured_;
  /// The layers of each chunk, by what the blocks cost and the number of chunks.
  mutable std::map<std::pair<const void*, int64_t>, std::vector<int64_t>> divided_;
};

}  // namespace hawser::train
