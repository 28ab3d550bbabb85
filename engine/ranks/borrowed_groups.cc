#include "engine/ranks/borrowed_groups.h"

#include "engine/base/error.h"
#include "engine/config/problems.h"

namespace hawser::train {
namespace {

void require_alike(bool alike, const nn::Parameter& p, const char* what) {
  if (alike) return;
  config::throw_if_any(
      {{"/adapter", fmt::format("the base engine has \"{}\" {} than this config", p.name, what),
        "give both configs the same adapter.base and pipeline.layers, and the base engine neither "
        "optimizer.frozen nor adapter.train"}});
}

}  // namespace

std::vector<BorrowedGroup> borrow_groups(const Rank& base, const nn::ParameterTable& table,
                                         const parallel::ShardLayout& layout) {
  std::vector<BorrowedGroup> groups(table.groups().size());
  for (const nn::Parameter& p : table.all()) {
    const parallel::GroupLayout& to = layout.group(p.group);
    if (!to.borrowed || !to.here) continue;
    const nn::Parameter& theirs = base.table().at(p.name);
    const parallel::GroupLayout& from = base.layout().group(theirs.group);
    const int64_t distance = theirs.offset - p.offset;  // between the two groups' first elements
    const bool whole = to.state.begin == 0 && to.state.end == to.elements;
    require_alike(from.type == to.type, p, "in another type");
    require_alike(from.here, p, "on another stage");
    require_alike(theirs.local_shape == p.local_shape && theirs.room == p.room &&
                      (whole || (distance == 0 && from.elements == to.elements)),
                  p, "sharded in another way");
    const GroupState& lent = base.executor().state(theirs.group);
    const StateArray& read = lent.copy ? lent.copy : lent.weights;
    if (read.outside != nullptr)
      fail(
          Code::kFailedPrecondition,
          "the base engine keeps its weights outside the arena (/offload/parameters), so no other engine can "
          "read them there: create it without /offload/parameters");
    const void* const shard = read.data;
    const char* const weights = layout.weights_sharded() ? static_cast<const char*>(shard)
                                                         : base.executor().weights(theirs.group) +
                                                               dtype_bytes(to.type, theirs.offset) -
                                                               dtype_bytes(to.type, p.offset);
    BorrowedGroup& group = groups[static_cast<size_t>(p.group)];
    require_alike(group.weights == nullptr || group.weights == weights, p, "in another order");
    HWS_CHECK(!to.has_master);  // frozen weights have no master
    group.weights = weights;
    const StateArray here{const_cast<char*>(weights), to.type};
    group.state.range = to.state;
    group.state.weights = layout.weights_sharded() ? here : here.from(to.state.begin);
    if (p.read == nn::Read::kNf4) group.state.scales = lent.scales + (theirs.scales - p.scales);
  }
  return groups;
}

std::vector<const char*> lent_weights(const std::vector<BorrowedGroup>& groups) {
  std::vector<const char*> weights;
  for (const BorrowedGroup& group : groups) weights.push_back(group.weights);
  return weights;
}

}  // namespace hawser::train
