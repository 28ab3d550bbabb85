#include "engine/report/layout_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/report/layout_bounds.h"
#include "engine/report/layout_forecasts.h"
#include "engine/report/layout_reasons.h"

namespace hawser::train {
namespace {

/// Forecasts that are made before the bounds are compared again. Does not depend on the number of threads, so
/// that the result does not either.
constexpr size_t kTogether = 8;

/// Passes of a micro-batch through a block, in all forecasts and in one. A plan has some instructions for
/// each.
constexpr int64_t kMostPasses = 400'000, kMostPassesOfOne = kMostPasses / 8;

/// What may be offloaded to make a layout fit, the least first.
constexpr LayoutDetails::Offload kOffloads[] = {{true, false, false}, {false, true, false},
                                                {true, true, false},  {false, false, true},
                                                {true, false, true},  {true, true, true}};

/// Most layouts of each kind whose details are varied: the fastest, faster ones that do not fit, and faster
/// ones that fit only with offload.
constexpr int64_t kSeeds = 3;
/// Most layouts that are kept for offload because their least bytes do not fit. If there are more, none of
/// them is tried.
constexpr size_t kMostOffloadable = 20'000;

struct Candidate {
  const LayoutChoice* choice;
  double least_seconds = 0, likely = 0;
  int64_t passes = 0;
  bool is_measured = false;  // otherwise `likely` is too low to be compared with that of measured layouts
};

/// Sorts measured layouts first, and likely fast ones before others.
void sort_by_promise(std::vector<Candidate>* all) {
  std::stable_sort(all->begin(), all->end(), [](const Candidate& a, const Candidate& b) {
    return a.is_measured != b.is_measured ? a.is_measured : a.likely < b.likely;
  });
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
        bounds_(model_, base, cluster, space_, options.imbalance),
        details_(base, cluster, space_),
        forecasts_(space_, cluster, options.imbalance),
        most_(options.most) {
    result_.ranks = options.ranks, result_.global_batch = base.batch.global_batch;
    result_.least_bytes = std::numeric_limits<double>::infinity();
  }

  SearchResult run() {
    std::vector<Candidate> tight, left;
    try_in_order(candidates(), options_.prunes ? &tight : nullptr, &left);
    try_in_order(tight, nullptr, &left);
    if (result_.layouts.empty()) try_smallest(&left);
    if (options_.varies) vary();
    for (const Candidate& c : left) leave(c);
    if (!result_.layouts.empty())
      result_.reasons =
          reasons_.of(result_.layouts.front().choice, result_.layouts.front().seconds, cluster_);
    return std::move(result_);
  }

 private:
  static config::ResolvedConfig alone(config::ResolvedConfig config) {
    config.mesh = {};
    config.pipeline = {};
    return config;
  }

  /// `c` must outlive the candidate.
  Candidate candidate(const LayoutChoice& c) const {
    const double least = bounds_.least_seconds(c);
    return {&c, least, bounds_.likely_seconds(c, least), passes_of(c), bounds_.is_measured(c)};
  }

  /// Returns the layouts that may fit, in the order in which they are tried.
  std::vector<Candidate> candidates() {
    std::vector<const LayoutChoice*> choices;
    for (const LayoutChoice& c : space_.choices()) {
      ++result_.considered;
      if (!options_.prunes || fits_at_least(c)) {
        choices.push_back(&c);
      } else if (details_.can_offload() && offloadable_.size() <= kMostOffloadable) {
        offloadable_.push_back(&c);
      }
    }
    bounds_.measure(choices);
    std::vector<Candidate> all;
    all.reserve(choices.size());
    for (const LayoutChoice* c : choices) all.push_back(candidate(*c));
    sort_by_promise(&all);
    return all;
  }

  double least_bytes(const LayoutChoice& c) const { return bounds_.least_bytes(c, c.zero_stage).all(); }

  /// Compares the least bytes of a layout with the memory of a device, and counts layouts that do not fit.
  bool fits_at_least(const LayoutChoice& c) {
    const double has = cluster_.device.memory_bytes;
    const LeastBytes bytes = bounds_.least_bytes(c, c.zero_stage);
    if (bytes.all() <= has) return true;
    count_too_large(c, bytes.largest(), bytes.all());
    LayoutChoice sharded = c;
    sharded.dp_shard = c.dp(), sharded.dp_replicate = 1;
    if (c.zero_stage == 0 && bounds_.least_bytes(sharded, 1).all() <= has) {
      ++result_.fits_with["ZeRO-1"];
    } else if (c.recompute == 0 && bytes.all() - bytes.activations <= has) {
      ++result_.fits_with["recomputation"];
    } else if (c.zero_stage < 3 && c.dp() * c.cp > 1 && bounds_.least_bytes(sharded, 3).all() <= has) {
      ++result_.fits_with["ZeRO-3"];
    }
    return false;
  }

  /// Tries the layouts, except those that `left` receives. `tight` receives the layouts that probably do not
  /// fit, which are tried last. If it is null, they are tried now.
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
    for (size_t i = 0; i < left->size(); ++i) by_bytes.emplace_back(least_bytes(*(*left)[i].choice), i);
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
    if (!fits_at_least(*c.choice)) return true;
    if (bounds_.likely_bytes(*c.choice) <= cluster_.device.memory_bytes) return false;
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
      reasons_.add_bound(*c.choice, c.least_seconds);
      ++result_.slower;
      return;
    }
    if (!fits_at_least(*c.choice)) return;
    const double least = c.least_seconds;
    reasons_.add_bound(*c.choice, least);
    result_.not_tried_seconds = result_.not_tried++ == 0 ? least : std::min(result_.not_tried_seconds, least);
  }

  /// True if the layout cannot be among the fastest. Equally fast ones may be, if they are simpler.
  bool is_slower(const Candidate& c) const {
    return options_.prunes && std::ssize(result_.layouts) == options_.top &&
           rounded_seconds(c.least_seconds) > rounded_seconds(result_.layouts.back().seconds);
  }

  std::vector<Tried> try_all(const std::vector<Candidate>& now) {
    std::vector<const LayoutChoice*> choices;
    for (const Candidate& c : now) choices.push_back(c.choice);
    std::vector<Tried> tried = forecasts_.of(choices);
    for (size_t i = 0; i < now.size(); ++i) {
      add(tried[i]);
      if (tried[i].outcome != Tried::Outcome::kRefused) passes_ += now[i].passes;
    }
    return tried;
  }

  void add(const Tried& tried) {
    if (tried.outcome == Tried::Outcome::kRefused) {
      result_.refused += tried.layout.choice.details.empty() ? 1 : 0;
      return;
    }
    ++result_.forecasts;
    result_.varied += tried.layout.choice.details.empty() ? 0 : 1;
    if (tried.outcome == Tried::Outcome::kTooLarge) return add_too_large(tried.layout);
    reasons_.add_predicted(tried.layout.choice, tried.layout.seconds);
    result_.least_bytes = std::min(result_.least_bytes, static_cast<double>(tried.layout.bytes));
    add_to_best(&result_.layouts, tried.layout, options_.top);
  }

  static std::string largest(const FoundLayout& layout) {
    const auto most = std::max_element(layout.memory.begin(), layout.memory.end());
    const std::string name = plan::category_name(static_cast<plan::Category>(most - layout.memory.begin()));
    return name == "optimizer" ? "optimizer state" : name;
  }

  void add_too_large(const FoundLayout& layout) {
    if (layout.choice.details.empty()) {
      count_too_large(layout.choice, largest(layout), static_cast<double>(layout.bytes));
    } else {
      reasons_.add_too_large(layout.choice, largest(layout));
    }
    add_to_best(&too_large_, layout, kSeeds);
  }

  void count_too_large(const LayoutChoice& c, const std::string& why, double bytes) {
    ++result_.does_not_fit[why];
    result_.least_bytes = std::min(result_.least_bytes, bytes);
    reasons_.add_too_large(c, why);
  }

  /// Varies the details of the fastest layouts, of layouts that would be faster but do not fit, and of
  /// layouts that would be faster and fit only with offload.
  void vary() {
    most_ = result_.forecasts + options_.most / 3, most_passes_ = passes_ + kMostPasses / 8;
    std::vector<FoundLayout> seeds = result_.layouts;
    if (std::ssize(seeds) > kSeeds) seeds.resize(kSeeds);
    for (const FoundLayout& layout : too_large_)
      if (seeds.empty() || layout.seconds < seeds.front().seconds) seeds.push_back(layout);
    for (FoundLayout& layout : offloaded()) seeds.push_back(std::move(layout));
    for (FoundLayout& seed : seeds) climb(std::move(seed));
  }

  /// Predicts the likely fastest of the layouts that fit only if something is offloaded.
  std::vector<FoundLayout> offloaded() {
    const double has = cluster_.device.memory_bytes;
    std::vector<Candidate> all;
    if (offloadable_.size() > kMostOffloadable) return {};
    for (const LayoutChoice* const layout : offloadable_) {
      const LayoutChoice& c = *layout;
      const double likely = bounds_.likely_seconds(c);
      if (!result_.layouts.empty() && likely >= result_.layouts.front().seconds) continue;
      const LeastBytes least = bounds_.least_bytes(c, c.zero_stage);
      for (const LayoutDetails::Offload& part : kOffloads) {
        const double gone = (part.optimizer ? least.optimizer : 0) +
                            (part.activations ? least.activations : 0) +
                            (part.parameters ? least.weights : 0);
        LayoutChoice without = details_.offloaded(c, part);
        if (least.all() - gone > has || without == c) continue;
        all.push_back(candidate(changed_.emplace_back(std::move(without))));
        break;
      }
    }
    sort_by_promise(&all);
    std::vector<FoundLayout> found;
    for (size_t i = 0; i < all.size() && std::ssize(found) < kSeeds; ++i) {
      if (!may_try(all[i])) continue;
      const Tried tried = try_all({all[i]}).front();
      if (tried.outcome != Tried::Outcome::kRefused) found.push_back(tried.layout);
    }
    return found;
  }

  /// Changes one detail at a time, as long as that makes the layout faster or, if it does not fit, smaller.
  void climb(FoundLayout at) {
    for (bool better = true; better;) {
      std::vector<Candidate> now;
      for (LayoutChoice& c : details_.neighbours(at.choice, at.loads)) {
        Candidate next{&c, 0, 0, passes_of(c), true};
        if (result_.forecasts + std::ssize(now) >= most_ || !may_try(next)) continue;
        const auto [kept, is_new] = varied_.insert(std::move(c));
        next.choice = &*kept;
        if (is_new) now.push_back(next);
      }
      better = false;
      for (const Tried& tried : try_all(now))
        if (tried.outcome != Tried::Outcome::kRefused && is_better(tried.layout, at))
          at = tried.layout, better = true;
    }
  }

  static bool is_better(const FoundLayout& a, const FoundLayout& b) {
    if (a.loads.fits != b.loads.fits) return a.loads.fits;
    return a.loads.fits ? is_before(a, b) : a.bytes < b.bytes;
  }

  int64_t passes_of(const LayoutChoice& c) const { return bounds_.micro_batches(c) * model_.config().layers; }

  const SearchOptions options_;
  const cluster::Cluster& cluster_;
  const LayoutSpace space_;
  const config::ResolvedConfig one_rank_;
  const nn::Model model_;
  LayoutBounds bounds_;
  const LayoutDetails details_;
  LayoutForecasts forecasts_;
  int64_t most_, most_passes_ = kMostPasses;      // limits for forecasts, and for their passes
  int64_t passes_ = 0;                            // of the forecasts so far
  std::vector<FoundLayout> too_large_;            // the fastest forecasts of layouts that do not fit
  std::vector<const LayoutChoice*> offloadable_;  // layouts whose least bytes do not fit
  std::deque<LayoutChoice> changed_;              // copies of them with something offloaded
  std::set<LayoutChoice> varied_;
  LayoutReasons reasons_;
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

SearchResult search_layouts(const config::ConfigTree& config, const cluster::Cluster& cluster,
                            const SearchOptions& options) {
  if (options.ranks < 0 || options.top < 1)
    fail(Code::kInvalidArgument, "ranks is {} and top is {}; ranks must be 0 or more, and top 1 or more",
         options.ranks, options.top);
  const Assembly base = assemble(on_described_device(config, cluster));
  require_imbalance(options.imbalance, base.config);
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
