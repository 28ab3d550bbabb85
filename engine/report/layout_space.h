// LayoutSpace: the layouts that a search considers for a config: meshes of a number of ranks at a fixed
// global batch, with schedule, chunks, micro-batch, ZeRO stage and recomputation. The best of them are varied
// further (layout_details.h). A field that the config
// sets stays as it is. The config's rules decide what goes together (config::resolve_with).
#pragma once

#include <compare>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config_tree.h"
#include "engine/config/effective.h"

namespace hawser::train {

/// A layout. The order is from simple to complex: fewer kinds of parallelism, then smaller degrees.
struct LayoutChoice {
  int64_t kinds = 0;  ///< kinds of parallelism, sharding and recomputation in use
  int64_t pp = 1, tp = 1, cp = 1, ep = 1, zero_stage = 0;
  int64_t recompute = 0;  ///< index of kRecomputePolicies
  int64_t dp_replicate = 1, dp_shard = 1;
  int64_t schedule = 0;  ///< index of parallel::pipeline::kSchedules
  int64_t chunks = 1, micro_batch = 1;
  std::vector<config::Setting> details = {};  ///< other fields, sorted (layout_details.h)

  auto operator<=>(const LayoutChoice&) const = default;
  int64_t dp() const { return dp_replicate * dp_shard; }
  /// The least data-parallel ranks among which a stage can divide its experts as the layout does.
  int64_t dp_of_experts() const { return ep / std::gcd(ep, cp * tp); }
};
inline constexpr std::string_view kRecomputePolicies[] = {"off", "selective", "full"};

class LayoutSpace {
 public:
  /// `tree`: the config as the user wrote it, completed from files. `ranks`: of the cluster. Throws
  /// kConfigInvalid if no mesh has that many ranks, or if nothing divides the global batch; both messages
  /// name the nearest that works.
  LayoutSpace(config::ConfigTree tree, const config::ResolvedConfig& base, int64_t ranks);

  /// Returns all layouts in their order. Rules may refuse some of them.
  const std::vector<LayoutChoice>& choices() const { return choices_; }
  /// Returns the fields in which a layout differs from the defaults.
  std::vector<config::Setting> settings(const LayoutChoice& choice) const;
  /// True if the config sets the field, so that it stays as it is.
  bool is_set(const char* pointer) const;
  /// Returns nothing if the rules refuse the layout.
  std::optional<config::ResolvedConfig> resolve(const LayoutChoice& choice) const;
  /// Returns a config of so many layers and two micro-batches on few ranks, which divides a layer as the
  /// layout does. `splits`: a backward has two passes. Returns nothing if the rules refuse it.
  std::optional<config::ResolvedConfig> resolve_small(const LayoutChoice& choice, bool splits,
                                                      int64_t layers) const;

 private:
  /// Returns the value that is set, else all divisors of n.
  std::vector<int64_t> degrees(const char* pointer, int64_t set, int64_t n) const;
  void add_meshes(LayoutChoice c, int64_t data_ranks);
  void add_schedules(const LayoutChoice& c);
  void add_batches(const LayoutChoice& c);
  void add(LayoutChoice c);
  [[noreturn]] void fail_no_mesh() const;
  [[noreturn]] void fail_no_batch() const;

  const config::ConfigTree tree_;
  const config::Effective effective_;  ///< knows which fields a preset or a rule has set
  const config::ResolvedConfig base_;
  const int64_t ranks_;
  const bool sets_micro_batch_, sets_recompute_;  // is_set() of these fields, which every layout needs
  std::vector<int64_t> data_ranks_;  ///< of the meshes, whether or not they divide the global batch
  std::vector<LayoutChoice> choices_;
};

}  // namespace hawser::train
