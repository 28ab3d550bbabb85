#include "engine/optim/step_guard.h"

#include <algorithm>
#include <cmath>

namespace hawser::optim {
namespace {

double median(std::array<double, Window::kSize>& values, int64_t n) {
  const auto middle = values.begin() + n / 2;
  std::nth_element(values.begin(), middle, values.begin() + n);
  return *middle;
}

}  // namespace

double Window::robust_z(double value) const {
  const int64_t n = std::min(count, kSize);
  if (n < kSize / 4) return 0.0;
  std::array<double, kSize> sorted = values;
  const double center = median(sorted, n);
  for (int64_t i = 0; i < n; ++i)
    sorted[static_cast<size_t>(i)] = std::abs(values[static_cast<size_t>(i)] - center);
  const double deviation = median(sorted, n);
  if (deviation == 0.0) return 0.0;
  return (value - center) / (1.4826 * deviation);
}

Verdict StepGuard::judge(double loss, double grad_norm) const {
  if (config_.skip_non_finite && !(std::isfinite(loss) && std::isfinite(grad_norm)))
    return Verdict::kNonFinite;
  if (config_.outlier != OutlierPolicy::kKeep &&
      (losses_.robust_z(loss) > config_.outlier_z || norms_.robust_z(grad_norm) > config_.outlier_z))
    return Verdict::kOutlier;
  return Verdict::kAccept;
}

void StepGuard::accepted(double loss, double grad_norm) {
  losses_.add(loss);
  norms_.add(grad_norm);
}

}  // namespace hawser::optim
