// LossScale: the factor of all gradients under precision fp16 (Micikevicius et al., "Mixed precision
// training", arXiv:1710.03740). Halves below 2^-14 lose digits, and those below 2^-25 become zero, so
// gradients are computed as multiples of a power of two, which the norm and the update divide out
// exactly. A step whose gradients overflow is dropped, and the scale follows what the gradients allow.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/optim/optim_config.h"

namespace hawser::optim {

/// The state of a loss scale between steps, which checkpoints keep.
struct LossScaleState {
  double scale = 1;
  int64_t finite_in_row = 0;   ///< finite steps since the scale changed or a step overflowed
  int64_t dropped_in_row = 0;  ///< steps that overflowed since the scale changed or a step was finite
  bool operator==(const LossScaleState&) const = default;
};

class LossScale {
 public:
  /// The largest scale that growth reaches.
  static constexpr double kLargest = 4294967296.0;

  /// Without `enabled`, the scale is 1, and no step overflows.
  LossScale(const LossScaleConfig& config, bool enabled);

  double scale() const { return state_.scale; }
  bool enabled() const { return enabled_; }
  /// True if a smaller scale could help a step that overflowed.
  bool can_shrink() const { return enabled_ && config_.fixed == 0 && state_.scale > config_.minimum; }
  /// True if the step must be dropped: its loss or gradient norm is not finite.
  bool overflows(double loss, double grad_norm) const;

  void overflowed();
  void finite();

  /// Returns the state for a checkpoint; none if the precision has no loss scale.
  std::optional<LossScaleState> saved() const { return enabled_ ? std::optional(state_) : std::nullopt; }
  /// Continues with the state of a checkpoint, or begins again if it has none (it is of another precision).
  /// A fixed scale stays.
  void resume(const std::optional<LossScaleState>& state);

 private:
  LossScaleConfig config_;
  bool enabled_;
  LossScaleState state_;
};

}  // namespace hawser::optim
