#include "engine/parallel/shard_layout.h"

#include <algorithm>

#include "engine/base/error.h"

namespace hawser::parallel {
namespace {

static_assert(mesh::kShardAlign % kIntBlock == 0 && mesh::kShardAlign % kNf4Block == 0 &&
                  mesh::kShardAlign % kStateBlock == 0,
              "no shard divides a record");

/// Reserves the next bytes of a slot; returns their offset. Only records (is_block_type) leave a gap.
int64_t take(int64_t* slot, int64_t bytes) {
  constexpr int64_t kAlign = 64;
  const int64_t begin = *slot;
  *slot += (bytes + kAlign - 1) / kAlign * kAlign;
  return begin;
}

/// Returns for each group whether all its parameters are base weights of an adapter.
std::vector<bool> groups_in_base(const nn::ParameterTable& table) {
  std::vector<bool> in_base(table.groups().size(), true);
  for (const nn::Parameter& p : table.all())
    if (!p.in_base()) in_base[static_cast<size_t>(p.group)] = false;
  return in_base;
}

/// Returns the number of a tensor's elements that a rank has.
int64_t elements(const mesh::PlacedTensor& tensor, int64_t rank) {
  int64_t count = 0;
  for (const mesh::Block& block : tensor.blocks(rank)) count += block.box.elements();
  return count;
}

}  // namespace

ShardLayout::ShardLayout(const nn::ParameterTable& table, const Options& options)
    : options_(options), over_mesh_(options.mesh, options.stage, options.reshard_group) {
  const std::vector<nn::ParameterGroup>& groups = table.groups();
  const nn::Parameter& tokens = table.all().front();
  table_ = {static_cast<int32_t>(tokens.group), tokens.offset, tokens.room};
  const int64_t last_block = groups.back().block;
  by_block_.resize(static_cast<size_t>(groups.back().block) + 1);
  states_.resize(by_block_.size());
  const std::vector<bool> in_base = groups_in_base(table);
  for (size_t i = 0; i < groups.size(); ++i) {
    const nn::ParameterGroup& from = groups[i];
    plan::BlockState& slots = states_[static_cast<size_t>(from.block)];
    GroupLayout g;
    g.elements = from.elements;
    g.trainable = from.trainable;
    g.experts = from.experts;
    g.products = nn::is_product(from.read);
    g.parts = parts(g.experts);
    g.index = coordinate(options.mesh, options.rank, over_mesh_.reduction(g.experts).scatter);
    g.copy =
        table_travels() && static_cast<int32_t>(i) == table_.group && !has(from.block) && has(last_block);
    g.here = has(from.block) || g.copy;
    if (g.copy) g.trainable = false;
    g.borrowed = options.base_borrowed && in_base[i];
    if (g.trainable && options.training) g.keep(optim::states_of(options.states, from));
    if (!g.here) {
      groups_.push_back(g);
      continue;
    }
    const GroupedTensor group = whole_group(g.elements, g.experts);
    const mesh::PlacedTensor shards = over_mesh_.parts(group), state = over_mesh_.state(group);
    g.shard = shards.local_elements();
    g.owned = run_of(shards, options.rank);
    g.state = run_of(state, options.rank);
    g.replica_axes = over_mesh_.state(whole_group(from, options.mesh)).replicating_axes();
    g.replicas = degree(options.mesh, g.replica_axes);
    g.replica = coordinate(options.mesh, options.rank, g.replica_axes);
    if (!over_mesh_.secondary_axes().empty())
      g.secondary_shard = over_mesh_.secondary(group).local_elements();
    const bool exact = from.read == nn::Read::kExact, nf4 = from.read == nn::Read::kNf4;
    // A frozen weight that checkpoints leave out needs no fp32 master; store it in the compute type only.
    const bool as_read = options.base_elsewhere && !from.trainable && from.read == nn::Read::kProduct;
    g.state_type = exact ? DType::kF32 : as_read ? options.compute : options.state;
    g.type = exact || from.read == nn::Read::kLookup ? g.state_type : options.compute;
    if (nf4) g.type = g.state_type = DType::kNf4;
    if (from.read == nn::Read::kInt8) g.type = DType::kI8Block;
    g.has_master = g.narrows() || (options.host_masters && options.training && g.trainable);
    if (!g.borrowed) g.scales = take(&scales_bytes_, dtype_bytes(DType::kF32, from.scales));
    g.borrowed ? place_window(&g, &slots) : place(&g, state.local_elements(), from.block, &slots);
    by_block_[static_cast<size_t>(from.block)].push_back(static_cast<int32_t>(i));
    groups_.push_back(g);
  }
  for (plan::BlockState& slots : states_) {
    if (!options.gradient_buckets) slots.gradients = slots.gradient_bucket;
  }
  if (options.training) matrices_ = MatrixHomes(table, over_mesh_, options.rank, options.stage_of);
  find_model_sums(table);
  share_writing(table);
  find_balances(table);
}

/// Reserves the place to which shards are gathered for a use.
void ShardLayout::place_window(GroupLayout* g, plan::BlockState* slots) const {
  if (!weights_sharded()) return;
  g->weights = take(&slots->unsharded, g->parts * dtype_bytes(g->type, g->shard));
  g->secondary = take(&slots->secondary, dtype_bytes(g->type, g->secondary_shard));
}

/// Reserves the group's places in the slots of its block.
void ShardLayout::place(GroupLayout* group, int64_t state_elements, int64_t block,
                        plan::BlockState* slots) const {
  GroupLayout& g = *group;
  const int64_t whole = g.parts * g.shard, shard_bytes = dtype_bytes(g.type, g.shard);
  const int64_t element = dtype_bytes(g.state_type), state_bytes = state_elements * element;
  place_window(group, slots);
  if (weights_sharded()) {
    g.weight_shard = take(&slots->weights, shard_bytes);
  } else {
    g.weights = take(&slots->weights, g.parts * shard_bytes);
    g.weight_shard = g.weights + g.index * shard_bytes;
  }
  if (g.copy) return;
  if (g.has_master) g.master = take(&slots->master, state_bytes);
  if (!options_.training || !g.trainable) return;
  g.gradients = take(&slots->gradient_bucket, whole * element);
  g.gradient_shard = options_.own_gradient_shards ? take(&slots->gradient_shards, g.shard * element)
                                                  : g.gradients + g.index * g.shard * element;
  if (has_window(static_cast<int32_t>(block)))
    g.gradient_window = take(&slots->gradient_window, g.elements * 4);
  g.shard_sums = take(&slots->shard_sums, g.shard * 4);
  for (size_t s = 0; s < plan::kStateCount; ++s)
    if (g.states[s].kept) g.states[s].at = take(&slots->states[s], g.states[s].bytes(state_elements));
  if (options_.host_update) g.host_gradients = take(&slots->host_gradients, state_bytes);
  if (options_.host_masters && g.narrows())
    g.host_weights = take(&slots->host_weights, dtype_bytes(g.type, state_elements));
}

void ShardLayout::find_balances(const nn::ParameterTable& table) {
  balances_.resize(by_block_.size());
  for (const nn::Parameter& p : table.all())
    if (p.balances && has(p.block)) balances_[static_cast<size_t>(p.block)] = true;
}

bool ShardLayout::has(int64_t block) const {
  return options_.stage_of.empty() || options_.stage_of[static_cast<size_t>(block)] ==
                                          options_.mesh.coordinate(options_.rank, mesh::Axis::kPp);
}

/// Finds the sums over model axes. Only tensor-parallel ranks compute gradients in part.
void ShardLayout::find_model_sums(const nn::ParameterTable& table) {
  if (options_.mesh.degree(mesh::Axis::kTp) == 1) return;
  std::vector<bool> known(groups_.size());
  for (const nn::Parameter& p : table.all()) {
    const auto i = static_cast<size_t>(p.group);
    if (!groups_[i].here) continue;
    const std::vector<mesh::SubAxis> axes =
        over_mesh_.model_sum(in_group(p, groups_[i].elements, options_.mesh, options_.sequence_parallel));
    HWS_CHECK(!known[i] || groups_[i].model_sum == axes);  // a group is summed as one array
    groups_[i].model_sum = axes, known[i] = true;
  }
  const std::vector<mesh::SubAxis> all_of_tp = {mesh::Axis::kTp};
  for (const plan::Op op : {plan::Op::kReduceTp, plan::Op::kReduceKv})
    for (const GroupLayout& g : groups_) {
      const bool of_op = !g.model_sum.empty() && (g.model_sum == all_of_tp) == (op == plan::Op::kReduceTp);
      if (!options_.training || !g.here || !g.trainable || !of_op) continue;
      model_sums_.push_back({op, g.model_sum, degree(options_.mesh, g.model_sum)});
      break;
    }
}

void ShardLayout::share_writing(const nn::ParameterTable& table) {
  const auto kept = [&](const nn::Parameter& p) -> int64_t {  // elements
    if (!group(p.group).here) return 0;
    if (p.in_base() && (options_.base_elsewhere || p.read == nn::Read::kNf4)) return 0;
    if (p.room != p.size) return elements(placed_state(p), options_.rank);
    const mesh::FlatRange& state = group(p.group).state;
    return std::max<int64_t>(0, std::min(p.offset + p.size, state.end) - std::max(p.offset, state.begin));
  };
  const auto arrays = [&](const nn::Parameter& p) { return 1 + group(p.group).kept_states(); };
  struct Shared {  // the elements that the ranks along these axes all keep
    const std::vector<mesh::SubAxis>* axes;
    int64_t elements = 0;
    int64_t at = 0;  // offset of the next parameter
  };
  std::vector<Shared> shares;
  const auto share_of = [&](const GroupLayout& g) -> Shared& {
    for (Shared& share : shares)
      if (*share.axes == g.replica_axes) return share;
    return shares.emplace_back(Shared{&g.replica_axes});
  };
  for (const nn::Parameter& p : table.all()) share_of(group(p.group)).elements += kept(p) * arrays(p);
  for (const nn::Parameter& p : table.all()) {
    const GroupLayout& g = group(p.group);
    Shared& share = share_of(g);
    const int64_t begin = share.elements * g.replica / g.replicas;
    const int64_t end = share.elements * (g.replica + 1) / g.replicas;
    const int64_t size = kept(p) * arrays(p);
    const auto cut = [&](int64_t to) { return std::clamp<int64_t>(to - share.at, 0, size) / arrays(p); };
    to_write_.push_back({cut(begin), cut(end)});
    share.at += size;
  }
}

mesh::Box ShardLayout::share_of(const nn::Parameter& p) const {
  const GroupedTensor t = in_group(p, group(p.group).elements, options_.mesh, false);
  const std::vector<mesh::Block> blocks =
      mesh::PlacedTensor(options_.mesh, {t.cut, {}}, p.shape).blocks(options_.rank);
  return blocks.empty() ? mesh::Box{{}, {}} : blocks[0].box;
}

mesh::PlacedTensor ShardLayout::placed_state(const nn::Parameter& p) const {
  // The axes of the gradient's sum make no difference to which rank keeps the state.
  GroupedTensor in = in_group(p, group(p.group).elements, options_.mesh, false);
  if (!options_.stage_of.empty()) in.stages = {options_.stage_of[static_cast<size_t>(p.block)]};
  return over_mesh_.state(in);
}

std::vector<mesh::ElementRun> ShardLayout::state_of(const nn::Parameter& p, int64_t rank) const {
  const mesh::PlacedTensor state = placed_state(p);
  std::vector<mesh::ElementRun> runs = mesh::element_runs(state, rank);
  const bool flat = std::any_of(state.layout().entries.begin(), state.layout().entries.end(),
                                [](const mesh::Entry& e) { return e.placement == mesh::Placement::kFlat; });
  if (!flat)  // memory then begins at the tensor, not at its group
    for (mesh::ElementRun& run : runs) run.at += p.offset;
  return runs;
}

std::vector<mesh::ElementRun> ShardLayout::to_write(const nn::Parameter& p, size_t parameter) const {
  const mesh::FlatRange& share = to_write_.at(parameter);
  std::vector<mesh::ElementRun> runs;
  int64_t before = 0;  // elements of the earlier runs
  for (const mesh::ElementRun& run : state_of(p, options_.rank)) {
    const int64_t first = std::max<int64_t>(0, share.begin - before);
    const int64_t last = std::min(run.size(), share.end - before);
    if (first < last) runs.push_back({run.begin + first, run.begin + last, run.at + first});
    before += run.size();
  }
  return runs;
}

std::vector<bool> ShardLayout::transfer_kinds(const std::vector<int32_t>& blocks) const {
  bool found[2] = {};
  for (const int32_t b : blocks)
    for (const int32_t g : groups_of(b))
      if (!group(g).borrowed || weights_sharded()) found[group(g).experts ? 1 : 0] = true;
  std::vector<bool> kinds;
  for (const bool experts : {false, true})
    if (found[experts ? 1 : 0]) kinds.push_back(experts);
  return kinds;
}

plan::BlockState ShardLayout::block_state(int32_t block) const { return states_[static_cast<size_t>(block)]; }

}  // namespace hawser::parallel
