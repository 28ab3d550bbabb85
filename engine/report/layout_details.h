// LayoutDetails: the fields that a search varies around its best layouts only, because they matter less than
// the mesh: when gradients are summed, how parameters are gathered, which activations are recomputed, what is
// offloaded, and the layers of each stage.
#pragma once

#include <string>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/report/layout_space.h"

namespace hawser::train {

/// What the forecast of a layout states, by which a search decides what to vary.
struct LayoutLoads {
  bool fits = false;
  double exposed = 0;             ///< share of the step in which stages wait for data-parallel ranks
  std::vector<int64_t> layers;    ///< of each chunk, in the model's order
  std::vector<int64_t> stages;    ///< of each chunk
  std::vector<double> computing;  ///< seconds of each stage
  std::vector<int64_t> bytes;     ///< of each stage
};

class LayoutDetails {
 public:
  /// `space` must outlive this object. Only memories whose rates the cluster states can receive offloaded
  /// data.
  LayoutDetails(const config::ResolvedConfig& base, const cluster::Cluster& cluster,
                const LayoutSpace& space);

  /// Returns the layouts that differ from `c` in one detail. Details that cannot make it faster are left
  /// out; if it does not fit, those that cannot make it smaller. Rules may refuse some of the layouts.
  std::vector<LayoutChoice> neighbours(const LayoutChoice& c, const LayoutLoads& loads) const;
  /// Returns all layouts that differ from `c` in details other than layers.
  std::vector<LayoutChoice> product(const LayoutChoice& c) const;
  struct Offload {
    bool optimizer = false, activations = false, parameters = false;
  };
  /// Returns the layout with the parts offloaded that `offload` names, if they can be.
  LayoutChoice offloaded(const LayoutChoice& c, Offload offload) const;
  bool can_offload() const { return can_offload_; }

 private:
  enum class Matters { kReduce, kGather, kArrays, kSegments, kOffload };
  using Value = std::vector<config::Setting>;  // empty: the default
  struct Detail {
    Matters matters;
    std::vector<Value> values;
  };

  void add(Matters matters, std::vector<Value> values);
  void add_offload(const char* pointer, bool host, bool disk);
  static bool matters(const Detail& detail, const LayoutChoice& c);
  bool may_help(const Detail& detail, const LayoutChoice& c, const LayoutLoads& loads) const;
  static bool has(const LayoutChoice& c, const Detail& detail);
  static LayoutChoice with(LayoutChoice c, const Detail& detail, const Value& value);
  void add_moves(const LayoutChoice& c, const LayoutLoads& loads, std::vector<LayoutChoice>* all) const;

  const LayoutSpace& space_;
  bool can_offload_ = false;
  std::vector<Detail> details_;
};

}  // namespace hawser::train
