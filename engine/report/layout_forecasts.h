// LayoutForecasts: the forecasts of a search. Layouts with equal plans are planned once.
#pragma once

#include <map>
#include <vector>

#include "engine/report/found_layout.h"

namespace hawser::train {

/// The outcome of one layout.
struct Tried {
  enum class Outcome { kRefused, kTooLarge, kFits } outcome = Outcome::kRefused;
  FoundLayout layout;
};

class LayoutForecasts {
 public:
  /// `space` and `cluster` must outlive this object. `imbalance`: as for Forecast.
  LayoutForecasts(const LayoutSpace& space, const cluster::Cluster& cluster, double imbalance)
      : space_(space), cluster_(cluster), imbalance_(imbalance) {}

  std::vector<Tried> of(const std::vector<const LayoutChoice*>& choices);

 private:
  Tried forecast(const LayoutChoice& choice, const config::ResolvedConfig& config) const;

  const LayoutSpace& space_;
  const cluster::Cluster& cluster_;
  const double imbalance_;
  std::map<LayoutChoice, Tried> planned_;  // by the layout that stands for all with the same plans
};

}  // namespace hawser::train
