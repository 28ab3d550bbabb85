#include "engine/parallel/bucket_runtime.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/comm/call.h"
#include "engine/comm/comm.h"

namespace hawser::parallel {

using plan::Instruction;
using plan::Op;
using plan::Operand;
using plan::Plan;
using plan::Role;
using plan::SlotId;

namespace {

/// Adds a piece. Records are sent as bytes.
void add_gather(DType type, comm::GatherPiece piece, GroupCall* t) {
  if (is_block_type(type)) {
    piece.shard_elements = dtype_bytes(type, piece.shard_elements);
    return t->gather_bytes.push_back(piece);
  }
  (type == DType::kF32 ? t->gather_f32 : t->gather_narrow).push_back(piece);
}

}  // namespace

comm::ProcessGroup* DataParallelGroups::of(TransferGroup group, plan::Lane lane) const {
  if (group == TransferGroup::kStage) return stages[static_cast<size_t>(lane)].get();
  const std::unique_ptr<comm::ProcessGroup>* const all[] = {
      &shard, &replica, &secondary, &edp,      &edp_replica,     &tp_sums, &kv_sums,
      &tp,    &cp,      &ep,        &matrices, &expert_matrices, nullptr,  &dp};
  static_assert(std::size(all) == kTransferGroups);
  return all[static_cast<size_t>(group)]->get();
}

BucketRuntime::BucketRuntime(const ShardLayout& layout, const DataParallelStrategy& strategy,
                             const DataParallelGroups& groups, char* arena, device::HostLink* link,
                             char* staging, std::vector<const char*> borrowed_shards)
    : layout_(layout),
      strategy_(strategy),
      groups_(groups),
      arena_(arena),
      link_(link),
      staging_(staging),
      borrowed_shards_(std::move(borrowed_shards)) {}

void BucketRuntime::bind(const Plan& plan) {
  std::vector<GroupCall>& transfers = bound_[&plan];
  transfers.clear();
  for (const Instruction& n : plan.instructions)
    transfers.push_back(n.is_transfer() && !plan::is_own(n.lane) ? staged(prepare(plan, n)) : GroupCall{});
}

GroupCall BucketRuntime::staged(GroupCall t) const {
  if (staging_ != nullptr) stage(&t, staging_);
  return t;
}

/// Returns this rank's shard of sums, which is in its own slot or at its place in the full gradient.
char* BucketRuntime::shard_in(const Plan& plan, SlotId slot, const GroupLayout& g) const {
  const Role role = plan.slot(slot).role;
  const int64_t in_whole = g.gradients + g.index * g.shard * dtype_bytes(g.state_type);
  return at(plan, slot) + (role == Role::kGradients   ? in_whole
                           : role == Role::kShardSums ? g.shard_sums
                                                      : g.gradient_shard);
}

/// Returns the data type of the gradients in a slot.
DType BucketRuntime::gradient_type(const Plan& plan, SlotId slot) const {
  return plan.slot(slot).role == Role::kShardSums ? DType::kF32 : layout_.options().state;
}

/// Prepares a sum over model axes. Addends are sent in their stored type; sums of f32 addends are f32.
GroupCall BucketRuntime::prepare_model_sum(const Plan& plan, const Instruction& n) const {
  const auto& sums = layout_.model_sums();
  const auto sum = std::find_if(sums.begin(), sums.end(), [&](const ModelSum& s) { return s.op == n.op; });
  GroupCall t;
  t.group = groups_.of(transfer_group(plan, n), n.lane);
  t.members = sum->ranks;
  comm::Reduction& r = t.sums.reduction;
  r.in_type = r.out_type = r.wire = r.round_to = layout_.options().state;
  for (const SlotId slot : n.all(Operand::kSent))
    each_trainable(plan, slot, false, [&](const GroupLayout& g) {
      char* const gradients = at(plan, slot) + g.gradients;
      if (ShardLayout::takes(*sum, g)) t.sums.all.push_back({gradients, gradients, g.elements});
    });
  return t;
}

/// Prepares the sums of REDUCE_GRAD and REDUCE_REPLICAS, without pieces.
void BucketRuntime::prepare_reductions(const Plan& plan, const Instruction& n, GroupCall* t) const {
  comm::Reduction r;
  r.accumulate = n.accumulate;
  r.tree = strategy_.tree;
  r.in_type = gradient_type(plan, n.all(Operand::kSent)[0]);
  r.out_type = gradient_type(plan, n.all(Operand::kReceived)[0]);
  comm::Reduction in_records = r;
  if (n.op == Op::kReduceReplicas) {
    in_records.wire = strategy_.replica_wire_of(true);
    r.round_to = in_records.round_to = strategy_.wire;
  } else {
    // Gradients are rounded only if they are sent. Experts that only this rank holds keep exact sums, as at
    // stage 0; those that only this rank of a replica holds are sent in records once, between replicas.
    const bool alone = t->members == 1 && strategy_.replicas == 1;
    r.wire = alone ? r.in_type : strategy_.wire;
    r.round_to = strategy_.replicas > 1 ? DType::kF32 : r.wire;
    if (strategy_.replicas == 1)
      r.sum_group = static_cast<int32_t>(n.experts ? strategy_.expert_sum_group : strategy_.sum_group);
    in_records.wire = t->members == 1 ? r.in_type : strategy_.wire_of(true);
    in_records.round_to = r.round_to, in_records.sum_group = r.sum_group;
  }
  t->sums.reduction = r, t->in_records.reduction = in_records;
}

GroupCall BucketRuntime::prepare_message(const Plan& plan, const Instruction& n) const {
  GroupCall t;
  t.group = groups_.of(TransferGroup::kStage, n.lane);
  t.members = 2;
  const SlotId slot = n.uses.front().slot;
  GroupCall::Message& message = n[Operand::kSent] >= 0 ? t.send : t.recv;
  message = {at(plan, slot), plan.slot(slot).bytes, t.group == nullptr ? 0 : 1 - t.group->rank()};
  const ShardLayout::Table& table = layout_.table();
  if (n.op == Op::kSendTableGrad) message.data += table.offset * 4, message.bytes = table.elements * 4;
  if (n.op == Op::kSendTable || n.op == Op::kRecvTable) {
    const GroupLayout& g = layout_.group(table.group);
    message.data += layout_.state_sharded() ? g.weight_shard : g.weights;
    message.bytes = layout_.table_share() * dtype_bytes(g.type);
  }
  return t;
}

GroupCall BucketRuntime::prepare(const Plan& plan, const Instruction& n) const {
  if (plan::is_message(n.op)) return prepare_message(plan, n);
  if (n.op == Op::kReduceTp || n.op == Op::kReduceKv) return prepare_model_sum(plan, n);
  if (n.op == Op::kGatherMatrix || n.op == Op::kScatterMatrix) return prepare_matrices(plan, n);
  GroupCall t;
  t.group = groups_.of(transfer_group(plan, n), n.lane);
  t.members = layout_.parts(n.experts);
  t.narrow = layout_.options().compute;
  const std::vector<SlotId> sent = n.all(Operand::kSent), received = n.all(Operand::kReceived);
  const auto sums_of = [&](const GroupLayout& g) -> GroupCall::Sums& {
    return is_block_type(strategy_.wire_of(g.products)) ? t.in_records : t.sums;
  };
  switch (n.op) {
    case Op::kReduceGrad:
      prepare_reductions(plan, n, &t);
      for (size_t i = 0; i < sent.size(); ++i)
        each_trainable(plan, sent[i], n.experts, [&](const GroupLayout& g) {
          sums_of(g).scatter.push_back(
              {shard_in(plan, received[i], g), at(plan, sent[i]) + g.gradients, g.shard});
        });
      return t;
    case Op::kReduceReplicas:
      t.members = strategy_.replicas;
      prepare_reductions(plan, n, &t);
      for (size_t i = 0; i < sent.size(); ++i)
        each_trainable(plan, sent[i], n.experts, [&](const GroupLayout& g) {
          sums_of(g).all.push_back({shard_in(plan, received[i], g), shard_in(plan, sent[i], g), g.shard});
        });
      return t;
    case Op::kGatherGrad:
      for (size_t i = 0; i < sent.size(); ++i)
        each_trainable(plan, sent[i], n.experts, [&](const GroupLayout& g) {
          add_gather(g.state_type, {at(plan, received[i]) + g.gradients, shard_in(plan, sent[i], g), g.shard},
                     &t);
        });
      return t;
    default:
      prepare_unshard(plan, n, &t);
      return t;
  }
}

/// Prepares GATHER_MATRIX (parts to their homes) or SCATTER_MATRIX (results to all copies).
GroupCall BucketRuntime::prepare_matrices(const Plan& plan, const Instruction& n) const {
  GroupCall t;
  t.group = groups_.of(transfer_group(plan, n), n.lane);
  const BlockMatrices* const m = layout_.matrices().of(n.block, n.experts);
  t.members = m->ranks;
  const BlockMatrices::Exchange& bytes = n.op == Op::kGatherMatrix ? m->gather : m->scatter;
  t.exchange = {at(plan, n[Operand::kReceived]), at(plan, n[Operand::kSent]), bytes.received, bytes.sent};
  return t;
}

/// Returns this rank's weights of a group at stage 3.
const char* BucketRuntime::shard_of(const Plan& plan, SlotId slot, int32_t group) const {
  const GroupLayout& g = layout_.group(group);
  if (g.borrowed && !borrowed_shards_.empty()) return borrowed_shards_[static_cast<size_t>(group)];
  return at(plan, slot) + g.weight_shard;
}

void BucketRuntime::prepare_unshard(const Plan& plan, const Instruction& n, GroupCall* t) const {
  const SlotId sent = n[Operand::kSent];
  const bool in_place = sent < 0;    // stages 1 and 2: the shard that the optimizer updated
  const bool frozen = n.block >= 0;  // in a step, weights that did not change stay
  const Role from = in_place ? Role::kWeights : plan.slot(sent).role;
  if (from == Role::kSecondary) t->members = layout_.secondary_parts();
  for (const SlotId whole : n.all(Operand::kReceived)) {
    for (const int32_t index : layout_.groups_of(plan.slot(whole).block)) {
      const GroupLayout& g = layout_.group(index);
      const bool borrowed_whole = g.borrowed && !layout_.weights_sharded();
      if (borrowed_whole || g.experts != n.experts || (in_place && !g.trainable && !g.copy && !frozen))
        continue;
      comm::GatherPiece piece{at(plan, whole) + g.weights, nullptr, g.shard};
      if (in_place) piece.shard = at(plan, whole) + g.weight_shard;
      if (from == Role::kWeightShards) piece.shard = shard_of(plan, sent, index);
      if (from == Role::kSecondary) {
        piece.shard = at(plan, sent) + g.secondary;
        piece.shard_elements = g.secondary_shard;
      }
      add_gather(g.type, piece, t);
    }
  }
}

comm::Work BucketRuntime::start(const Plan& plan, size_t index) const {
  return start(bound_.at(&plan)[index]);
}

comm::Work BucketRuntime::start(const GroupCall& t) const {
  for (const GroupCall::Copy& c : t.before) link_->fetch(c.host, c.arena, c.bytes);
  if (!t.before.empty()) link_->wait();
  const comm::Work work = issue(t);
  if (t.after.empty()) return work;
  t.group->wait(work);
  for (const GroupCall::Copy& c : t.after) link_->send(c.arena, c.host, c.bytes);
  return {};
}

void BucketRuntime::keep_secondary(const Plan& plan, const Instruction& n) const {
  const SlotId weights = n[Operand::kWeights];
  for (const int32_t index : layout_.groups_of(plan.slot(weights).block)) {
    const GroupLayout& g = layout_.group(index);
    const int64_t bytes = dtype_bytes(g.type, g.secondary_shard);
    link_->copy(at(plan, n[Operand::kSecondary]) + g.secondary,
                at(plan, weights) + g.weights + layout_.secondary_index() * bytes, bytes);
  }
}

void BucketRuntime::follow(plan::Lane lane, comm::Work work) const {
  if (work.ticket == 0) return;
  if (const auto& stages = groups_.stages[static_cast<size_t>(lane)]) return stages->follow(work);
  for (const auto* group : {&groups_.shard, &groups_.edp, &groups_.tp_sums, &groups_.kv_sums, &groups_.dp})
    if (*group) return (*group)->follow(work);
}

void BucketRuntime::wait(plan::Lane lane, comm::Work work) const {
  if (work.ticket == 0) return;
  const auto& stages = groups_.stages[static_cast<size_t>(lane)];
  (stages ? stages : groups_.dp)->wait(work);
}

namespace {

/// Returns a base for address arithmetic that is never dereferenced.
char* nowhere() { return reinterpret_cast<char*>(uintptr_t{4096}); }

}  // namespace

/// Calls use(transfer) for each transfer of the plan, without real memory or groups.
template <class Use>
void BucketRuntime::for_each_transfer(const Plan& plan, const ShardLayout& layout,
                                      const DataParallelStrategy& strategy, Use use) {
  const DataParallelGroups nobody;
  const BucketRuntime runtime(layout, strategy, nobody, nowhere(), nullptr, nullptr);
  for (const Instruction& n : plan.instructions)
    if (n.is_transfer() && !plan::is_own(n.lane)) use(runtime.prepare(plan, n));
}

int64_t transfer_device_bytes(const Plan& plan, const ShardLayout& layout,
                              const DataParallelStrategy& strategy) {
  int64_t bytes = 0;
  BucketRuntime::for_each_transfer(plan, layout, strategy, [&](const GroupCall& t) {
    const auto members = static_cast<int32_t>(t.members);
    const auto count = [&](int64_t share, const comm::Reduction& r) {
      bytes = std::max(bytes, comm::device_staging_bytes(share, members, r));
    };
    for (const GroupCall::Sums* s : {&t.sums, &t.in_records}) {
      const comm::Reduction& r = s->reduction;
      for (const comm::ReducePiece& p : s->scatter) count(p.shard_elements, r);
      for (const comm::AllReducePiece& p : s->all) count(comm::reduce_share(p.elements, members, r.wire), r);
    }
  });
  return bytes;
}

LaneBytes largest_messages(const Plan& plan, const ShardLayout& layout,
                           const DataParallelStrategy& strategy) {
  const DataParallelGroups nobody;
  const BucketRuntime runtime(layout, strategy, nobody, nowhere(), nullptr, nullptr);
  LaneBytes most{};
  const auto count = [&](const Instruction& n) {
    const GroupCall t = runtime.prepare_message(plan, n);  // one end of it is empty
    int64_t& bytes = most[static_cast<size_t>(n.lane)];
    bytes = std::max({bytes, t.send.bytes, t.recv.bytes});
  };
  for (const Instruction& n : plan.instructions)
    if (plan::is_message(n.op)) count(n);
  return most;
}

int64_t transfer_staging_bytes(const Plan& plan, const ShardLayout& layout,
                               const DataParallelStrategy& strategy) {
  int64_t bytes = 0;
  BucketRuntime::for_each_transfer(plan, layout, strategy,
                                   [&](GroupCall t) { bytes = std::max(bytes, stage(&t, nowhere())); });
  return bytes;
}

}  // namespace hawser::parallel
