#include "engine/report/layout_forecasts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/on_all_cores.h"

namespace hawser::train {
namespace {

/// Returns the layout that stands for all with the same plans. If gradients are reduced once a step and every
/// step has several micro-batches, they are unsharded until then, so ZeRO-2 has the plans of ZeRO-1.
LayoutChoice plan_of(LayoutChoice c, const config::ResolvedConfig& config) {
  const std::vector<int64_t> sizes = config.batch.all_micro_batches();
  const bool once = config.zero.reduce == parallel::ReducePolicy::kPerStep &&
                    std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 1; });
  if (c.zero_stage == 2 && once) c.zero_stage = 1;
  return c;
}

}  // namespace

std::vector<Tried> LayoutForecasts::of(const std::vector<const LayoutChoice*>& choices) {
  std::vector<std::optional<config::ResolvedConfig>> configs(choices.size());
  on_all_cores(std::ssize(choices), [&](int64_t i) {
    configs[static_cast<size_t>(i)] = space_.resolve(*choices[static_cast<size_t>(i)]);
  });
  std::vector<std::pair<Tried*, size_t>> missing;  // forecasts to make, each with the index of a layout
  std::vector<const Tried*> known(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!configs[i]) continue;
    const auto [at, is_new] = planned_.try_emplace(plan_of(*choices[i], *configs[i]));
    known[i] = &at->second;
    if (is_new) missing.emplace_back(&at->second, i);
  }
  on_all_cores(std::ssize(missing), [&](int64_t m) {
    const auto [to, i] = missing[static_cast<size_t>(m)];
    *to = forecast(*choices[i], *configs[i]);
  });
  std::vector<Tried> tried(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    if (known[i] != nullptr) tried[i] = *known[i];
    tried[i].layout.choice = *choices[i];
    tried[i].layout.settings = space_.settings(*choices[i]);
  }
  return tried;
}

Tried LayoutForecasts::forecast(const LayoutChoice& choice, const config::ResolvedConfig& config) const {
  Tried tried;
  std::unique_ptr<const Forecast> forecast;
  try {
    forecast = std::make_unique<const Forecast>(config, cluster_, imbalance_);
  } catch (const Error& error) {
    if (error.code() != Code::kConfigInvalid) throw;
    return tried;  // refused by a check outside the config rules, such as one for the device
  }
  tried.outcome = forecast->fits() ? Tried::Outcome::kFits : Tried::Outcome::kTooLarge;
  tried.layout = found_layout(choice, space_, *forecast);
  return tried;
}

}  // namespace hawser::train
