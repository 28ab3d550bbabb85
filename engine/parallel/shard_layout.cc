#include "engine/parallel/shard_layout.h"

namespace hawser::parallel {
namespace {

/// Gives out the next bytes of a slot; returns where they begin.
int64_t take(int64_t* slot, int64_t bytes) {
  const int64_t begin = *slot;
  *slot += bytes;
  return begin;
}

}  // namespace

ShardLayout::ShardLayout(const nn::ParameterTable& table, const Options& options) : options_(options) {
  const std::vector<nn::ParameterGroup>& groups = table.groups();
  by_block_.resize(static_cast<size_t>(groups.back().block) + 1);
  states_.resize(by_block_.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    const nn::ParameterGroup& from = groups[i];
    plan::BlockState& slots = states_[static_cast<size_t>(from.block)];
    GroupLayout g;
    g.elements = from.elements;
    g.shard = mesh::shard_elements(g.elements, options.parts);
    g.owned = mesh::shard_range(g.elements, options.parts, options.index);
    g.state = state_sharded() ? g.owned : mesh::FlatRange{0, g.elements};
    g.type = from.read == nn::Read::kLookup ? DType::kF32 : options.compute;
    g.has_master = g.type != DType::kF32;
    g.trainable = from.trainable;

    const int64_t whole = options.parts * g.shard, bytes = dtype_bytes(g.type);
    const int64_t state = state_sharded() ? g.shard : g.elements;
    if (weights_sharded()) {
      g.weights = take(&slots.unsharded, whole * bytes);
      g.weight_shard = take(&slots.weights, g.shard * bytes);
      if (options.secondary_parts > 0)
        g.secondary =
            take(&slots.secondary, mesh::shard_elements(g.elements, options.secondary_parts) * bytes);
    } else {
      g.weights = take(&slots.weights, whole * bytes);
      g.weight_shard = g.weights + options.index * g.shard * bytes;
    }
    if (g.has_master) g.master = take(&slots.master, state * 4);
    if (options.training && g.trainable) {
      g.gradients = take(&slots.gradient_bucket, whole * 4);
      g.gradient_shard = options.own_gradient_shards ? take(&slots.gradient_shards, g.shard * 4)
                                                     : g.gradients + options.index * g.shard * 4;
      g.moments = take(&slots.moment1, state * 4);
    }
    by_block_[static_cast<size_t>(from.block)].push_back(static_cast<int32_t>(i));
    groups_.push_back(g);
  }
  for (plan::BlockState& slots : states_) {
    if (!options.gradient_buckets) slots.gradients = slots.gradient_bucket;
    slots.moment2 = options.moments > 1 ? slots.moment1 : 0;
    if (options.moments < 1) slots.moment1 = 0;
  }
}

plan::BlockState ShardLayout::block_state(int32_t block) const { return states_[static_cast<size_t>(block)]; }

}  // namespace hawser::parallel
