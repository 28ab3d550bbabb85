#include "engine/mesh/reduction.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace hawser::mesh {
namespace {

using Kind = ReduceStep::Kind;

bool is_split_in(const Layout& layout, Axis axis, int64_t* outer_degree) {
  for (const Entry& entry : layout.entries) {
    for (const SubAxis& sub : entry.axes) {
      if (sub.axis != axis || sub.half == Half::kWhole) continue;
      *outer_degree = sub.outer_degree;
      return true;
    }
  }
  return false;
}

/// `layout` with axes split into their outer and inner parts where `other` splits them. The meaning does not
/// change.
Layout split_like(const Layout& layout, const Layout& other) {
  Layout result = layout;
  for (Entry& entry : result.entries) {
    std::vector<SubAxis> axes;
    for (const SubAxis& sub : entry.axes) {
      int64_t outer = 1, own = 1;
      if (!is_split_in(other, sub.axis, &outer)) {
        axes.push_back(sub);
      } else if (sub.half == Half::kWhole) {
        axes.push_back(outer_half(sub.axis, outer));
        axes.push_back(inner_half(sub.axis, outer));
      } else if (is_split_in(layout, sub.axis, &own); own != outer) {
        fail(Code::kInvalidArgument,
             "reduction: {} is split with {} and with {} outside; split it in one way", axis_name(sub.axis),
             own, outer);
      } else {
        axes.push_back(sub);
      }
    }
    entry.axes = std::move(axes);
  }
  return result;
}

const Entry* entry_of(const Layout& layout, const SubAxis& axis) {
  for (const Entry& entry : layout.entries) {
    if (std::find(entry.axes.begin(), entry.axes.end(), axis) != entry.axes.end()) return &entry;
  }
  return nullptr;
}

bool is_partial(const Layout& layout, const SubAxis& axis) {
  const Entry* entry = entry_of(layout, axis);
  return entry != nullptr && entry->placement == Placement::kPartial;
}

/// Families of axes: stages, model axes, data axes. One collective computes the sums over one family.
enum class Family { kStage, kModel, kData };
Family family_of(const SubAxis& axis) {
  switch (axis.axis) {
    case Axis::kPp:
      return Family::kStage;
    case Axis::kTp:
    case Axis::kEp:
    case Axis::kEtp:
      return Family::kModel;
    default:
      return Family::kData;
  }
}

/// Fails unless every sharding of the gradient is also in the wanted layout, because a sum does not gather.
void check_cuts_stay(const Layout& gradient, const Layout& wanted) {
  if (gradient.stages != wanted.stages)
    fail(Code::kInvalidArgument, "reduction: the gradient and the wanted result are on different stages");
  for (const Entry& entry : wanted.entries) {
    if (entry.placement == Placement::kPartial)
      fail(Code::kInvalidArgument, "reduction: the wanted result has {}, but a finished sum is not Partial",
           describe(entry));
  }
  for (const Entry& entry : gradient.entries) {
    if (is_cut(entry) &&
        std::find(wanted.entries.begin(), wanted.entries.end(), entry) == wanted.entries.end())
      fail(Code::kInvalidArgument,
           "reduction: the gradient has {}, but the wanted result does not; a sum cannot change that",
           describe(entry));
  }
}

/// Sorts by family, with reduce_scatter first within each, and merges the sums of one family into one.
std::vector<ReduceStep> ordered(std::vector<ReduceStep> steps) {
  std::stable_sort(steps.begin(), steps.end(), [](const ReduceStep& a, const ReduceStep& b) {
    const auto key = [](const ReduceStep& s) {
      return std::pair(family_of(s.axes[0]), s.kind == Kind::kSum);
    };
    return key(a) < key(b);
  });
  std::vector<ReduceStep> joined;
  for (ReduceStep& step : steps) {
    const bool same = !joined.empty() && step.kind == Kind::kSum && joined.back().kind == Kind::kSum &&
                      family_of(step.axes[0]) == family_of(joined.back().axes[0]);
    if (!same) {
      joined.push_back(std::move(step));
    } else {
      joined.back().axes.insert(joined.back().axes.end(), step.axes.begin(), step.axes.end());
    }
  }
  for (ReduceStep& step : joined) {
    std::sort(step.axes.begin(), step.axes.end(), [](const SubAxis& a, const SubAxis& b) {
      return std::pair(a.axis, a.half) < std::pair(b.axis, b.half);
    });
  }
  return joined;
}

}  // namespace

std::vector<ReduceStep> reduction(const DeviceMesh& mesh, const Layout& gradient, const Layout& wanted) {
  const Layout from = split_like(gradient, wanted), to = split_like(wanted, gradient);
  check_cuts_stay(from, to);
  std::vector<ReduceStep> steps;
  std::vector<SubAxis> scattered;
  // A sharding whose ranks all hold addends is produced by one reduce_scatter. For other shardings, each rank
  // takes its own part without communication.
  for (const Entry& entry : to.entries) {
    if (!is_cut(entry)) continue;
    ReduceStep step{Kind::kReduceScatter, {}};
    bool all = true;
    for (const SubAxis& axis : entry.axes) {
      if (degree(mesh, axis) == 1) continue;
      all = all && is_partial(from, axis) && family_of(axis) == family_of(entry.axes[0]);
      step.axes.push_back(axis);
    }
    if (!all || step.axes.empty()) continue;
    scattered.insert(scattered.end(), step.axes.begin(), step.axes.end());
    steps.push_back(std::move(step));
  }
  for (const Entry& entry : from.entries) {
    if (entry.placement != Placement::kPartial) continue;
    for (const SubAxis& axis : entry.axes) {
      const bool done = std::find(scattered.begin(), scattered.end(), axis) != scattered.end();
      if (!done && degree(mesh, axis) > 1) steps.push_back({Kind::kSum, {axis}});
    }
  }
  return ordered(std::move(steps));
}

}  // namespace hawser::mesh
