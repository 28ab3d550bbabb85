#include "engine/report/found_layout.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace hawser::train {
namespace {

/// Returns the mean seconds for which stages wait for data-parallel ranks.
double waits_for_data(const cluster::StageTimes& mean) {
  using enum parallel::TransferGroup;
  double all = 0;
  for (const auto group : {kShard, kReplica, kSecondary, kExpertShard, kExpertReplica})
    all += mean.exposed[static_cast<size_t>(group)];
  return all;
}

LayoutChoice without_details(LayoutChoice c) {
  c.kinds -= std::ssize(c.details);
  c.details.clear();
  return c;
}

LayoutLoads loads_of(const Forecast& forecast) {
  LayoutLoads loads;
  loads.fits = forecast.fits();
  loads.exposed = waits_for_data(forecast.step().mean()) / forecast.step().seconds;
  std::map<int32_t, std::pair<int64_t, int64_t>> chunks;  // by first block: layers, stage
  const std::vector<EnginePlans>& stages = forecast.stages();
  const auto layers = static_cast<int32_t>(forecast.model().config().layers);
  for (size_t s = 0; s < stages.size(); ++s) {
    loads.computing.push_back(forecast.step().stages[s].computing);
    loads.bytes.push_back(stages[s].device_bytes());
    for (const plan::ModelChunk& c : stages[s].stage.chunks)
      chunks[c.begin] = {std::min(c.end, layers + 1) - std::max(c.begin, 1), static_cast<int64_t>(s)};
  }
  for (const auto& [begin, chunk] : chunks)
    loads.layers.push_back(chunk.first), loads.stages.push_back(chunk.second);
  return loads;
}

}  // namespace

FoundLayout found_layout(const LayoutChoice& choice, const LayoutSpace& space, const Forecast& forecast) {
  FoundLayout found;
  found.choice = choice, found.settings = space.settings(choice);
  found.seconds = forecast.step().seconds, found.tokens_per_second = forecast.tokens_per_second();
  found.mfu = forecast.mfu(), found.mean = forecast.step().mean();
  const std::vector<EnginePlans>& stages = forecast.stages();
  const auto fewer = [](const EnginePlans& a, const EnginePlans& b) {
    return a.device_bytes() < b.device_bytes();
  };
  const auto fullest = std::max_element(stages.begin(), stages.end(), fewer);
  found.fullest = static_cast<size_t>(fullest - stages.begin());
  found.bytes = fullest->device_bytes(), found.memory = fullest->train.at_peak;
  found.loads = loads_of(forecast);
  return found;
}

double rounded_seconds(double seconds) {
  const double unit = std::pow(10, std::floor(std::log10(seconds)) - 9);
  return std::round(seconds / unit) * unit;
}

bool is_before(const FoundLayout& a, const FoundLayout& b) {
  const double one = rounded_seconds(a.seconds), other = rounded_seconds(b.seconds);
  return one != other ? one < other : a.choice < b.choice;
}

void add_to_best(std::vector<FoundLayout>* best, const FoundLayout& layout, int64_t top) {
  const auto same = std::find_if(best->begin(), best->end(), [&](const FoundLayout& other) {
    return without_details(other.choice) == without_details(layout.choice);
  });
  if (same != best->end() && is_before(*same, layout)) return;
  if (same != best->end()) best->erase(same);
  best->insert(std::upper_bound(best->begin(), best->end(), layout, is_before), layout);
  if (std::ssize(*best) > top) best->pop_back();
}

}  // namespace hawser::train
