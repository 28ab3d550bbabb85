#include "engine/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hawser::optim {
namespace {

double share(int64_t part, int64_t whole) {
  if (whole <= 0) return 1.0;
  return std::clamp(static_cast<double>(part) / static_cast<double>(whole), 0.0, 1.0);
}

}  // namespace

double learning_rate(const ScheduleConfig& s, double peak, int64_t step, DecayProgress progress) {
  if (step <= s.warmup_steps) return peak * static_cast<double>(step) / static_cast<double>(s.warmup_steps);
  const double low = s.min_learning_rate;
  const int64_t warm = s.warmup_steps;
  const int64_t done = progress == DecayProgress::kWithStep ? step : step - 1;
  switch (s.kind) {
    case ScheduleKind::kConstant:
      return peak;
    case ScheduleKind::kLinear:
      return peak + (low - peak) * share(done - warm, s.decay_steps - warm);
    case ScheduleKind::kCosine:
      return low + (peak - low) * 0.5 *
                       (1.0 + std::cos(std::numbers::pi * share(done - warm, s.decay_steps - warm)));
    case ScheduleKind::kWsd: {
      const int64_t stable_end = warm + s.stable_steps;
      if (step <= stable_end) return peak;
      const double decayed = share(done - stable_end, s.decay_steps - stable_end);
      return peak + (low - peak) * (s.decay_shape == DecayShape::kSqrt ? std::sqrt(decayed) : decayed);
    }
    case ScheduleKind::kInverseSqrt:
      return std::max(
          low, peak * std::sqrt(static_cast<double>(std::max<int64_t>(warm, 1)) / static_cast<double>(step)));
  }
  return peak;
}

bool has_decay(const ScheduleConfig& s) {
  return s.kind == ScheduleKind::kLinear || s.kind == ScheduleKind::kCosine || s.kind == ScheduleKind::kWsd;
}

}  // namespace hawser::optim
