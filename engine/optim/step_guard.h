// StepGuard: decides whether a step may change the weights. Its window of accepted steps is part of the run's
// state.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/optim/optim_config.h"

namespace hawser::optim {

enum class Verdict { kAccept, kNonFinite, kOutlier };

/// The most recent accepted values of one quantity (loss or gradient norm).
struct Window {
  static constexpr int64_t kSize = 128;
  std::array<double, kSize> values{};
  int64_t count = 0;  ///< number of values ever added

  void add(double value) { values[static_cast<size_t>(count++ % kSize)] = value; }
  /// Returns (value - median) / (1.4826 * median absolute deviation), the robust z of Iglewicz and Hoaglin; 0
  /// if the window has fewer than kSize / 4 values, which are too few to judge.
  double robust_z(double value) const;
};

class StepGuard {
 public:
  explicit StepGuard(const GuardConfig& config) : config_(config) {}

  Verdict judge(double loss, double grad_norm) const;
  void accepted(double loss, double grad_norm);

  // Checkpoints save and restore this state exactly.
  const Window& losses() const { return losses_; }
  const Window& norms() const { return norms_; }
  void restore(const Window& losses, const Window& norms) { losses_ = losses, norms_ = norms; }

 private:
  GuardConfig config_;
  Window losses_, norms_;
};

}  // namespace hawser::optim
