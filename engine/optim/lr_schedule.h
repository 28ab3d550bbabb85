// The learning rate of each step.
#pragma once

#include <cstdint>

#include "engine/optim/optim_config.h"

namespace hawser::optim {

/// The learning rate of step `step` (from 1) for a peak rate `peak`. Warm-up is linear: step s of w has s / w
/// of the peak. Then, with d = decay_steps, m = min_learning_rate and t = (s - w) / (d - w) clamped to [0,
/// 1]:
///   constant: peak; linear: peak + (m - peak) t; cosine: m + (peak - m) (1 + cos(pi t)) / 2;
///   wsd (Hu et al., arXiv:2404.06395): peak for stable_steps after the warm-up, then linear to m at d;
///   inverse_sqrt (Vaswani et al., arXiv:1706.03762): peak sqrt(max(w, 1) / s), never below m.
double learning_rate(const ScheduleConfig& schedule, double peak, int64_t step);

}  // namespace hawser::optim
