#include "engine/optim/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace hawser::optim {

LossScale::LossScale(const LossScaleConfig& config, bool enabled) : config_(config), enabled_(enabled) {
  resume(std::nullopt);
}

void LossScale::resume(const std::optional<LossScaleState>& state) {
  if (!enabled_) return;
  const double first = config_.fixed > 0 ? config_.fixed : config_.initial;
  state_ = state.value_or(LossScaleState{first});
  if (config_.fixed > 0) state_.scale = first;
}

bool LossScale::overflows(double loss, double grad_norm) const {
  return enabled_ && !(std::isfinite(loss) && std::isfinite(grad_norm));
}

void LossScale::overflowed() {
  state_.finite_in_row = 0;
  ++state_.dropped_in_row;
  if (!can_shrink() || state_.dropped_in_row < config_.patience) return;
  state_.scale = std::max(config_.minimum, state_.scale / config_.backoff);
  state_.dropped_in_row = 0;
}

void LossScale::finite() {
  if (!enabled_) return;
  state_.dropped_in_row = 0;
  ++state_.finite_in_row;
  if (config_.fixed > 0 || state_.finite_in_row < config_.growth_every) return;
  state_.scale = std::min(kLargest, 2 * state_.scale);
  state_.finite_in_row = 0;
}

}  // namespace hawser::optim
