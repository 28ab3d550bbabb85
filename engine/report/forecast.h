// Forecast: the plans of a config for the devices of a cluster, and when their instructions would run.
#pragma once

#include <vector>

#include "engine/assembly/engine_plans.h"
#include "engine/cluster/foretell.h"
#include "engine/ranks/described_device.h"

namespace hawser::train {

/// Throws kInvalidArgument if an imbalance of experts is below 1, or above 1 for a model without experts.
void require_imbalance(double imbalance, const config::ResolvedConfig& config);

class Forecast {
 public:
  /// Both must outlive this object. `imbalance`: the rows of the busiest rank's experts over the mean of all
  /// ranks that divide the experts; that rank's step is predicted. Throws the errors of make_stage_plans,
  /// those of described_device and those of require_imbalance.
  Forecast(const config::ResolvedConfig& config, const cluster::Cluster& cluster, double imbalance = 1);
  Forecast(const Forecast&) = delete;
  Forecast& operator=(const Forecast&) = delete;

  const DeviceChoice& device() const { return device_; }
  const nn::Model& model() const { return model_; }
  /// The plans of each stage.
  const std::vector<EnginePlans>& stages() const { return stages_; }
  const cluster::ForetoldStep& step() const { return step_; }
  /// Predicts the seconds of a step of so many micro-batches; step() is that of the largest.
  double seconds_of(int64_t micro_batches) const;
  /// Returns the number, in the world, of the first rank of a stage.
  int64_t first_of_stage(size_t stage) const {
    return strategies_.first_of_stage(static_cast<int64_t>(stage));
  }
  std::vector<cluster::StageProblem> problems() const;
  /// What a rank of the first stage sends.
  std::vector<cluster::SentRow> sent() const { return cluster::sent_rows(cluster_, problems().front()); }

  int64_t ranks() const { return config_.mesh.world(); }
  int64_t most_bytes() const;  ///< of the stage that needs most
  bool fits() const { return static_cast<double>(most_bytes()) <= cluster_.device.memory_bytes; }
  double tokens_of_step() const {
    return static_cast<double>(config_.batch.global_batch * config_.batch.sequence);
  }
  double tokens_per_second() const { return tokens_of_step() / step_.seconds; }
  /// Returns the model's FLOPs per second, without those of recomputation, as a share of the peak of all
  /// ranks.
  double mfu() const;

 private:
  Target target(double imbalance) const;

  const config::ResolvedConfig& config_;
  const cluster::Cluster& cluster_;
  const DeviceChoice device_;
  const nn::Model model_;
  const parallel::Strategies strategies_;
  std::vector<EnginePlans> stages_;
  std::vector<parallel::ShardLayout> layouts_;  // of the first rank of each stage
  cluster::ForetoldStep step_;
};

}  // namespace hawser::train
