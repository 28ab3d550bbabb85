#include "engine/report/forecast.h"

#include <algorithm>
#include <cmath>

namespace hawser::train {
namespace {

using plan::RepeatedWaits;

/// Two predictions that differ by less, as a share of the step, differ by rounding.
constexpr double kRounding = 1e-11;

bool equal(const cluster::ForetoldStep& a, const cluster::ForetoldStep& b) {
  const auto near = [&](double x, double y) { return std::abs(x - y) <= kRounding * a.seconds; };
  if (!near(a.seconds, b.seconds)) return false;
  for (size_t s = 0; s < a.stages.size(); ++s) {
    const cluster::StageTimes &x = a.stages[s], &y = b.stages[s];
    if (!near(x.bubble, y.bubble) || !near(x.copies, y.copies) || !near(x.computing, y.computing))
      return false;
    for (size_t g = 0; g < x.exposed.size(); ++g)
      if (!near(x.exposed[g], y.exposed[g])) return false;
  }
  return true;
}

}  // namespace

Forecast::Forecast(const config::ResolvedConfig& config, const cluster::Cluster& cluster, Planned planned)
    : config_(config),
      cluster_(cluster),
      device_(described_device(cluster, config)),
      model_(model_of(config, device_.tile_rows())),
      strategies_(strategies_of(config)) {
  const FewMicroBatches all{config.batch.grad_accum_steps};
  for (int64_t more = 0;; more = 4 * more + 8)
    if (predict(planned == Planned::kFew ? few_micro_batches(config, more) : all)) return;
}

Target Forecast::target() const {
  return described_target(device_, config_, choose_kernels(config_),
                          choose_threads(config_, static_cast<int32_t>(ranks())));
}

std::vector<cluster::StageProblem> Forecast::problems() const {
  std::vector<cluster::StageProblem> problems;
  for (size_t s = 0; s < stages_.size(); ++s)
    problems.push_back({&stages_[s].train, &layouts_[s], &stages_[s].strategy});
  return problems;
}

/// Plans and predicts. Returns false if more micro-batches must be planned.
bool Forecast::predict(const FewMicroBatches& few) {
  stages_ = make_stage_plans(model_, config_, target(), false, few.left_out);
  if (layouts_.empty())
    for (size_t s = 0; s < stages_.size(); ++s)
      layouts_.emplace_back(model_.table(),
                            layout_options(config_, strategies_, stages_[s].strategy,
                                           strategies_.first_of_stage(static_cast<int64_t>(s)), false));
  if (few.left_out == 0) {
    step_ = cluster::foretell(cluster_, problems());
    return true;
  }
  std::vector<plan::Plan> most;
  for (EnginePlans& plans : stages_) {
    most.push_back(plans.train);
    if (!lengthen(&plans.train, few, RepeatedWaits::kFewest)) return false;
    lengthen(&most.back(), few, RepeatedWaits::kMost);
  }
  step_ = cluster::foretell(cluster_, problems());
  std::vector<cluster::StageProblem> bound = problems();
  for (size_t s = 0; s < bound.size(); ++s) bound[s].plan = &most[s];
  return equal(step_, cluster::foretell(cluster_, bound));
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
