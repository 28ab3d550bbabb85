// Optimizer config: settings of the optimizer, the learning-rate schedule and the guard against bad steps.
// The schema has the defaults (capi/schema/config.fbs).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hawser::optim {

enum class OptimizerKind { kAdamW, kSgd };
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0, eps = 0;
  double weight_decay = 0;
  double momentum = 0;
  bool nesterov = false;
  double clip_norm = 0;             ///< 0: no clipping
  std::vector<std::string> frozen;  ///< patterns (* and ?) for names of parameters that are not trained
};

enum class ScheduleKind { kConstant, kLinear, kCosine, kWsd, kInverseSqrt };
struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;   ///< steps after which the minimum is reached
  int64_t stable_steps = 0;  ///< wsd: steps at the peak rate after warm-up
  double min_learning_rate = 0;
};

enum class OutlierPolicy { kKeep, kSkip };
struct GuardConfig {
  bool skip_non_finite = false;
  OutlierPolicy outlier = OutlierPolicy::kKeep;
  double outlier_z = 0;               ///< limit of Window::robust_z, for loss and gradient norm
  int64_t max_consecutive_skips = 0;  ///< training stops with HWS_NUMERIC after so many in a row
};

}  // namespace hawser::optim
