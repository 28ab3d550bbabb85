// FoundLayout: the forecast of one layout of a search, and the order of layouts.
#pragma once

#include <vector>

#include "engine/report/forecast.h"
#include "engine/report/layout_details.h"
#include "engine/report/layout_space.h"

namespace hawser::train {

/// A layout that was predicted.
struct FoundLayout {
  LayoutChoice choice;
  std::vector<config::Setting> settings;
  double seconds = 0, tokens_per_second = 0, mfu = 0;
  cluster::StageTimes mean;  ///< of the stages
  size_t fullest = 0;        ///< the stage that needs most bytes
  int64_t bytes = 0;         ///< of that stage
  plan::MemoryByCategory memory{};
  LayoutLoads loads;
};

FoundLayout found_layout(const LayoutChoice& choice, const LayoutSpace& space, const Forecast& forecast);

/// Returns seconds with so many digits that rounding errors do not decide between layouts.
double rounded_seconds(double seconds);
/// True if `a` is faster, or equally fast and simpler.
bool is_before(const FoundLayout& a, const FoundLayout& b);

/// Adds a layout to the best, of which there are at most `top`, and one of those that differ only in details.
/// The result does not depend on the order in which layouts are added: equally fast ones are sorted from
/// simple to complex.
void add_to_best(std::vector<FoundLayout>* best, const FoundLayout& layout, int64_t top);

}  // namespace hawser::train
