#include "engine/report/layout_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/base/on_all_cores.h"
#include "engine/report/layout_bounds.h"

namespace hawser::train {
namespace {

/// Forecasts that are made before the bounds are compared again. Does not depend on the number of threads, so
/// that the result does not either.
constexpr size_t kTogether = 8;

/// Passes of a micro-batch through a block, in all forecasts and in one. A plan has some instructions for
/// each.
constexpr int64_t kMostPasses = 400'000, kMostPassesOfOne = kMostPasses / 8;

/// Seconds with so many digits that rounding errors do not decide between layouts.
double rounded(double seconds) {
  const double unit = std::pow(10, std::floor(std::log10(seconds)) - 9);
  return std::round(seconds / unit) * unit;
}

bool before(const FoundLayout& a, const FoundLayout& b) {
  const double one = rounded(a.seconds), other = rounded(b.seconds);
  return one != other ? one < other : a.choice < b.choice;
}

/// Share of a device's memory that the bounds on bytes, which count no workspaces and buckets, may take.
constexpr double kTight = 0.85;

struct Candidate {
  LayoutChoice choice;
  double least_seconds = 0, likely = 0;
  int64_t passes = 0;
};

/// The outcome of one candidate.
struct Tried {
  enum class Outcome { kRefused, kTooLarge, kFits } outcome = Outcome::kRefused;
  FoundLayout layout;
};

FoundLayout describe(const LayoutChoice& choice, const LayoutSpace& space, const Forecast& forecast) {
  FoundLayout found{
      choice,         space.settings(choice), forecast.step().seconds, forecast.tokens_per_second(),
      forecast.mfu(), forecast.step().mean()};
  const std::vector<EnginePlans>& stages = forecast.stages();
  const auto fewer = [](const EnginePlans& a, const EnginePlans& b) {
    return a.device_bytes() < b.device_bytes();
  };
  const auto fullest = std::max_element(stages.begin(), stages.end(), fewer);
  found.fullest = static_cast<size_t>(fullest - stages.begin());
  found.bytes = fullest->device_bytes(), found.memory = fullest->train.at_peak;
  return found;
}

class Search {
 public:
  Search(const config::ConfigTree& tree, const config::ResolvedConfig& base, const cluster::Cluster& cluster,
         const SearchOptions& options)
      : options_(options),
        cluster_(cluster),
        space_(tree, base, options.ranks),
        one_rank_(alone(base)),
        model_(model_of(one_rank_)),
        bounds_(model_, base, cluster, space_),
        most_(options.most) {
    result_.ranks = options.ranks, result_.global_batch = base.batch.global_batch;
    result_.least_bytes = std::numeric_limits<double>::infinity();
  }

  SearchResult run() {
    std::vector<Candidate> tight, left;
    try_in_order(candidates(), options_.prunes ? &tight : nullptr, &left);
    try_in_order(tight, nullptr, &left);
    if (result_.layouts.empty()) try_smallest(&left);
    for (const Candidate& c : left) leave(c);
    return std::move(result_);
  }

 private:
  static config::ResolvedConfig alone(config::ResolvedConfig config) {
    config.mesh = {};
    config.pipeline = {};
    return config;
  }

  /// Returns the layouts that may fit, likely fast ones first.
  std::vector<Candidate> candidates() {
    std::vector<LayoutChoice> choices;
    for (const LayoutChoice& c : space_.choices()) {
      ++result_.considered;
      if (!options_.prunes || fits_at_least(c)) choices.push_back(c);
    }
    bounds_.measure(choices);
    std::vector<Candidate> all;
    for (const LayoutChoice& c : choices)
      all.push_back({c, bounds_.least_seconds(c), bounds_.likely_seconds(c),
                     bounds_.micro_batches(c) * model_.config().layers});
    std::stable_sort(all.begin(), all.end(),
                     [](const Candidate& a, const Candidate& b) { return a.likely < b.likely; });
    return all;
  }

  double least_bytes(const LayoutChoice& c) const { return bounds_.least_bytes(c, c.zero_stage).all(); }

  /// Compares the least bytes of a layout with the memory of a device, and counts layouts that do not fit.
  bool fits_at_least(const LayoutChoice& c) {
    const double has = cluster_.device.memory_bytes;
    const LeastBytes bytes = bounds_.least_bytes(c, c.zero_stage);
    if (bytes.all() <= has) return true;
    count_too_large(bytes.largest(), bytes.all());
    LayoutChoice sharded = c;
    sharded.dp_shard = c.dp(), sharded.dp_replicate = 1;
    if (c.zero_stage == 0 && bounds_.least_bytes(sharded, 1).all() <= has) ++result_.fits_with_zero1;
    return false;
  }

  /// Tries the layouts, except those that `left` receives. `tight` receives layouts whose least bytes nearly
  /// fill a device: few of them fit, so they are tried last. Null: they are tried as well.
  void try_in_order(const std::vector<Candidate>& all, std::vector<Candidate>* tight,
                    std::vector<Candidate>* left) {
    std::vector<Candidate> now;
    for (size_t next = 0; next < all.size(); next += kTogether) {
      const size_t end = std::min(all.size(), next + kTogether);
      for (size_t i = next; i < end; ++i) (may_try(all[i]) ? now : *left).push_back(all[i]);
      if (tight != nullptr) std::erase_if(now, [&](const Candidate& c) { return put_off(c, tight); });
      try_all(now);
      now.clear();
    }
  }

  /// Allows as many forecasts again, and tries the layouts of `left`, those with the least bytes first, until
  /// one fits. `left` keeps the layouts that were not tried.
  void try_smallest(std::vector<Candidate>* left) {
    std::vector<std::pair<double, size_t>> by_bytes;
    for (size_t i = 0; i < left->size(); ++i) by_bytes.emplace_back(least_bytes((*left)[i].choice), i);
    std::sort(by_bytes.begin(), by_bytes.end());
    most_ += options_.most, most_passes_ += kMostPasses;
    std::vector<Candidate> now, others;
    for (const auto& [bytes, i] : by_bytes) {
      const Candidate& c = (*left)[i];
      (result_.layouts.empty() && may_try(c) ? now : others).push_back(c);
      if (now.size() == kTogether) try_all(std::exchange(now, {}));
    }
    try_all(now);
    *left = std::move(others);
  }

  /// True if the layout does not fit, or joins those that are tried last.
  bool put_off(const Candidate& c, std::vector<Candidate>* tight) {
    if (!fits_at_least(c.choice)) return true;
    if (least_bytes(c.choice) * above_ <= kTight * cluster_.device.memory_bytes) return false;
    tight->push_back(c);
    return true;
  }

  /// False if the layout cannot be among the fastest, or if the forecasts have reached a limit.
  bool may_try(const Candidate& c) const {
    if (!options_.prunes) return true;
    return !is_slower(c) && result_.forecasts < most_ && c.passes <= kMostPassesOfOne &&
           passes_ + c.passes <= most_passes_;
  }

  void leave(const Candidate& c) {
    if (is_slower(c)) {
      ++result_.slower;
      return;
    }
    if (!fits_at_least(c.choice)) return;
    const double least = c.least_seconds;
    result_.not_tried_seconds = result_.not_tried++ == 0 ? least : std::min(result_.not_tried_seconds, least);
  }

  /// True if the layout cannot be among the fastest. Equally fast ones may be, if they are simpler.
  bool is_slower(const Candidate& c) const {
    return options_.prunes && std::ssize(result_.layouts) == options_.top &&
           rounded(c.least_seconds) > rounded(result_.layouts.back().seconds);
  }

  void try_all(const std::vector<Candidate>& now) {
    std::vector<Tried> tried(now.size());
    on_all_cores(std::ssize(now), [&](int64_t i) {
      tried[static_cast<size_t>(i)] = attempt(now[static_cast<size_t>(i)].choice);
    });
    for (size_t i = 0; i < now.size(); ++i) {
      add(tried[i]);
      if (tried[i].outcome != Tried::Outcome::kRefused) passes_ += now[i].passes;
    }
  }

  Tried attempt(const LayoutChoice& choice) const {
    Tried tried;
    const std::optional<config::ResolvedConfig> config = space_.resolve(choice);
    if (!config) return tried;
    std::unique_ptr<const Forecast> forecast;
    try {
      forecast = std::make_unique<const Forecast>(*config, cluster_);
    } catch (const Error& error) {
      if (error.code() != Code::kConfigInvalid) throw;
      return tried;  // refused with what the rules do not know, such as the
                     // device
    }
    tried.outcome = forecast->fits() ? Tried::Outcome::kFits : Tried::Outcome::kTooLarge;
    tried.layout = describe(choice, space_, *forecast);
    return tried;
  }

  void add(const Tried& tried) {
    if (tried.outcome == Tried::Outcome::kRefused) {
      ++result_.refused;
      return;
    }
    ++result_.forecasts;
    const double above = static_cast<double>(tried.layout.bytes) / least_bytes(tried.layout.choice);
    above_ = result_.forecasts == 1 ? above : std::min(above_, above);
    if (tried.outcome == Tried::Outcome::kTooLarge)
      return count_too_large(largest(tried.layout), static_cast<double>(tried.layout.bytes));
    result_.least_bytes = std::min(result_.least_bytes, static_cast<double>(tried.layout.bytes));
    add_to_best(&result_.layouts, tried.layout, options_.top);
  }

  static std::string largest(const FoundLayout& layout) {
    const auto most = std::max_element(layout.memory.begin(), layout.memory.end());
    const std::string name = plan::category_name(static_cast<plan::Category>(most - layout.memory.begin()));
    return name == "optimizer" ? "optimizer state" : name;
  }

  void count_too_large(const std::string& why, double bytes) {
    ++result_.does_not_fit[why];
    result_.least_bytes = std::min(result_.least_bytes, bytes);
  }

  const SearchOptions options_;
  const cluster::Cluster& cluster_;
  const LayoutSpace space_;
  const config::ResolvedConfig one_rank_;
  const nn::Model model_;
  LayoutBounds bounds_;
  int64_t most_, most_passes_ = kMostPasses;  // limits for forecasts, and for their passes
  int64_t passes_ = 0;                        // of the forecasts so far
  double above_ = 1;                          // smallest ratio of a forecast's bytes to their lower bound
  SearchResult result_;
};

[[noreturn]] void fail_nothing_fits(const SearchResult& result, const cluster::Cluster& cluster) {
  const double has = cluster.device.memory_bytes;
  const double times = result.least_bytes / has;
  fail(Code::kOutOfMemory,
       "out of memory: no layout of {} ranks that was tried fits into the {} "
       "of a rank; the smallest needs "
       "{}; use about {:.0f} ranks, or devices with more memory, or /offload",
       result.ranks, plan::bytes_text(static_cast<int64_t>(has)),
       plan::bytes_text(static_cast<int64_t>(result.least_bytes)),
       std::ceil(times) * static_cast<double>(result.ranks));
}

}  // namespace

void add_to_best(std::vector<FoundLayout>* best, const FoundLayout& layout, int64_t top) {
  best->insert(std::upper_bound(best->begin(), best->end(), layout, before), layout);
  if (std::ssize(*best) > top) best->pop_back();
}

SearchResult search_layouts(const config::ConfigTree& config, const cluster::Cluster& cluster,
                            const SearchOptions& options) {
  if (options.ranks < 0 || options.top < 1)
    fail(Code::kInvalidArgument, "ranks is {} and top is {}; ranks must be 0 or more, and top 1 or more",
         options.ranks, options.top);
  const Assembly base = assemble(on_described_device(config, cluster));
  SearchOptions here = options;
  if (here.ranks == 0) here.ranks = cluster.ranks > 0 ? cluster.ranks : base.config.mesh.world();
  if (cluster.ranks > 0 && here.ranks > cluster.ranks)
    fail(Code::kConfigInvalid, "{} ranks are wanted, but the cluster \"{}\" has {}", here.ranks, cluster.name,
         cluster.ranks);
  SearchResult result = Search(base.tree, base.config, cluster, here).run();
  if (std::isinf(result.least_bytes))
    fail(Code::kConfigInvalid,
         "/mesh: the rules of configs refuse every layout of {} ranks that was tried; use another number of "
         "ranks, or leave out fields that the config sets",
         result.ranks);
  if (result.layouts.empty()) fail_nothing_fits(result, cluster);
  return result;
}

}  // namespace hawser::train
