// Learning-rate schedule: computes the learning rate of each step.
#pragma once

#include <cstdint>

#include "engine/optim/optim_config.h"

namespace hawser::optim {

/// Selects which steps count as the progress of a decay. Take a decay to 0 over n steps. If only the steps
/// before a step count, the last step still has 1 / n of the decay ahead. If the step itself counts, the last
/// step has a rate of 0, so training on its rows has no effect.
enum class DecayProgress {
  kBeforeStep,  ///< only the steps before this one, as in PyTorch and Transformers
  kWithStep,    ///< also this step: for runs that an older version of Hawser began
};

/// Returns the learning rate of step `step` (from 1) for a peak rate `peak`. Warm-up is linear: step s of w
/// has s / w of the peak. Then, with d = decay_steps, m = min_learning_rate and t = (s - 1 - w) / (d - w)
/// clamped to [0, 1] (kWithStep: t = (s - w) / (d - w)):
///   constant: peak; linear: peak + (m - peak) t; cosine: m + (peak - m) (1 + cos(pi t)) / 2;
///   wsd (Hu et al., arXiv:2404.06395): peak for stable_steps after the warm-up, then a decay
///   until m is reached after d steps. With t from 0 to 1 over this decay: peak + (m - peak) t, or with
///   decay_shape sqrt peak + (m - peak) sqrt(t) (Hägele et al., arXiv:2405.18392);
///   inverse_sqrt (Vaswani et al., arXiv:1706.03762): peak sqrt(max(w, 1) / s), never below m.
/// So the first step after the warm-up has the peak, step d is the last step above m, and step d + 1 has m.
double learning_rate(const ScheduleConfig& schedule, double peak, int64_t step,
                     DecayProgress progress = DecayProgress::kBeforeStep);

/// True if the schedule has a decay, so that DecayProgress matters.
bool has_decay(const ScheduleConfig& schedule);

}  // namespace hawser::optim
