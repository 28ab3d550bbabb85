#include "engine/report/forecast.h"

#include <algorithm>
#include <cmath>

#include "engine/assembly/precision.h"
#include "engine/base/error.h"

namespace hawser::train {

void require_imbalance(double imbalance, const config::ResolvedConfig& config) {
  if (!(imbalance >= 1) || !std::isfinite(imbalance))
    fail(Code::kInvalidArgument,
         "imbalance is {}; it must be 1 (balanced) or more: the load of the busiest rank's experts over the "
         "mean of all ranks",
         imbalance);
  if (imbalance > 1 && config.model.moe.experts == 0)
    fail(Code::kInvalidArgument,
         "imbalance is {}, but the model has no experts whose loads could differ; use 1, or set "
         "/model/moe/experts",
         imbalance);
}

Forecast::Forecast(const config::ResolvedConfig& config, const cluster::Cluster& cluster, double imbalance)
    : config_(config),
      cluster_(cluster),
      device_(described_device(cluster, config)),
      model_(model_of(config, device_.tile_rows())),
      strategies_(strategies_of(config)),
      stages_(make_stage_plans(model_, config, target(imbalance), false)) {
  layouts_.reserve(stages_.size());
  for (size_t s = 0; s < stages_.size(); ++s)
    layouts_.emplace_back(model_.table(),
                          layout_options(config, strategies_, stages_[s].strategy,
                                         strategies_.first_of_stage(static_cast<int64_t>(s)), false));
  step_ = cluster::foretell(cluster, problems());
}

Target Forecast::target(double imbalance) const {
  require_imbalance(imbalance, config_);
  Target target = described_target(device_, config_, choose_kernels(config_),
                                   choose_threads(config_, static_cast<int32_t>(ranks())));
  target.imbalance = imbalance;
  return target;
}

std::vector<cluster::StageProblem> Forecast::problems() const {
  std::vector<cluster::StageProblem> problems;
  for (size_t s = 0; s < stages_.size(); ++s)
    problems.push_back({&stages_[s].train, &layouts_[s], &stages_[s].strategy});
  return problems;
}

double Forecast::seconds_of(int64_t micro_batches) const {
  std::vector<cluster::StageProblem> of_size = problems();
  for (size_t s = 0; s < of_size.size(); ++s) of_size[s].plan = &stages_[s].train_of(micro_batches);
  return cluster::foretell(cluster_, of_size).seconds;
}

int64_t Forecast::most_bytes() const {
  int64_t most = 0;
  for (const EnginePlans& plans : stages_) most = std::max(most, plans.device_bytes());
  return most;
}

double Forecast::mfu() const {
  return model_.flops_per_token(config_.batch.sequence) * tokens_per_second() /
         (static_cast<double>(ranks()) * cluster_.device.peak(compute_type(config_)));
}

}  // namespace hawser::train
