#include "tests/harness/reference_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <string>

namespace hawser::testing {
namespace {

constexpr size_t kMost = 32;

struct Kept {
  std::string key;
  std::vector<StepRecord> records;
};

/// All that decides the records: the config, and what rows_of reads besides it.
std::string key_of(const Problem& p, const Layout& layout, int steps) {
  return fmt::format("{} {} {} {} {}", layout_config(p, layout), p.weights_every, p.documents, p.seed, steps);
}

}  // namespace

std::vector<StepRecord> reference_run(const Problem& problem, const Layout& layout, int steps) {
  static std::list<Kept> latest;
  if (!problem.from.empty()) return run_layout(problem, layout, steps);  // the folder's content may change
  const std::string key = key_of(problem, layout, steps);
  const auto found = std::find_if(latest.begin(), latest.end(), [&](const Kept& k) { return k.key == key; });
  if (found == latest.end())
    latest.push_front({key, run_layout(problem, layout, steps)});
  else
    latest.splice(latest.begin(), latest, found);
  if (latest.size() > kMost) latest.pop_back();
  return latest.front().records;
}

}  // namespace hawser::testing
