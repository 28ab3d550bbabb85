#include "engine/parallel/transfer_group.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "engine/base/error.h"
#include "engine/parallel/pipeline/message_lanes.h"

namespace hawser::parallel {
namespace {

using comm::Operation;
using plan::Lane;
using plan::Op;
using enum TransferGroup;

constexpr std::array<const char*, kTransferGroups> kNames = {
    "shard", "replica", "secondary", "edp",    "edp_replica",   "tp_sums", "kv_sums",
    "tp",    "cp",      "ep",        "matrix", "expert_matrix", "stage",   "world"};

Operation operation_named(std::string_view name) {
  for (int32_t o = 0; o < static_cast<int32_t>(Operation::kCount); ++o)
    if (name == comm::operation_name(static_cast<Operation>(o))) return static_cast<Operation>(o);
  fail(Code::kInternal, "an exchange inside a block is called {}, which is no operation of the ledger", name);
}

Operation operation_of(Op op) {
  if (op == Op::kReduceGrad) return Operation::kReduceScatter;
  if (op == Op::kGatherGrad || op == Op::kUnshard) return Operation::kAllGather;
  if (op == Op::kGatherMatrix || op == Op::kScatterMatrix) return Operation::kAllToAll;
  if (plan::is_message(op)) return Operation::kSend;
  return plan::traits_of(op).transfer ? Operation::kAllReduce : Operation::kAllReduceI64;
}

}  // namespace

const char* transfer_group_name(TransferGroup group) { return kNames[static_cast<size_t>(group)]; }

TransferGroup transfer_group(const plan::Plan& plan, const plan::Instruction& n) {
  if (plan::is_message(n.op)) return kStage;
  switch (n.op) {
    case Op::kReduceTp:
      return kTpSums;
    case Op::kReduceKv:
      return kKvSums;
    case Op::kReduceReplicas:
      return n.experts ? kExpertReplica : kReplica;
    case Op::kUnshard:
      if (const plan::SlotId sent = n[plan::Operand::kSent];
          sent >= 0 && plan.slot(sent).role == plan::Role::kSecondary)
        return kSecondary;
      [[fallthrough]];
    case Op::kReduceGrad:
    case Op::kGatherGrad:
      return n.experts ? kExpertShard : kShard;
    case Op::kGatherMatrix:
    case Op::kScatterMatrix:
      return n.experts ? kExpertMatrix : kMatrix;
    case Op::kObjective:
      return kCp;
    default:
      return kWorld;
  }
}

Sent sent_in(const ExchangeNote& note) {
  Sent sent;
  sent.group = is_of(note, "tp") ? kTp : is_of(note, "cp") ? kCp : kEp;
  sent.operation = operation_named(note.operation);
  sent.bytes = note.bytes;
  return sent;
}

Sent sent_by(const plan::Plan& plan, const plan::Instruction& n, const DataParallelStrategy& strategy) {
  Sent sent;
  sent.group = transfer_group(plan, n);
  sent.operation = operation_of(n.op);
  sent.bytes = n.exchanges.empty() ? n.sent_bytes : 0;
  sent.lane = n.lane;
  if (n.op == Op::kReduceGrad && strategy.replicas == 1 && !strategy.tree)
    sent.sum_group = n.experts ? strategy.expert_sum_group : strategy.sum_group;
  return sent;
}

std::vector<int64_t> members_of(TransferGroup group, const ShardLayout& layout, Lane lane) {
  using mesh::Axis;
  const mesh::DeviceMesh& mesh = layout.options().mesh;
  const int64_t rank = layout.options().rank;
  const auto along = [&](const std::vector<mesh::SubAxis>& axes) { return mesh::group(mesh, rank, axes); };
  const auto of_sum = [&](Op op) {
    for (const ModelSum& sum : layout.model_sums())
      if (sum.op == op) return along(sum.axes);
    return std::vector<int64_t>{rank};
  };
  const StateLayout& state = layout.over_mesh();
  switch (group) {
    case kShard:
      return along(state.reduction().scatter);
    case kReplica:
      return along(state.reduction().across);
    case kSecondary:
      return along(state.secondary_axes());
    case kExpertShard:
      return along(state.reduction(true).scatter);
    case kExpertReplica:
      return along(state.reduction(true).across);
    case kTpSums:
      return of_sum(Op::kReduceTp);
    case kKvSums:
      return of_sum(Op::kReduceKv);
    case kTp:
      return along({Axis::kTp});
    case kCp:
      return along({Axis::kCp});
    case kEp:
      return along({Axis::kEp});
    case kMatrix:
      return along(StateLayout::holder_axes(false));
    case kExpertMatrix:
      return along(StateLayout::holder_axes(true));
    case kStage:
      return {rank, mesh.at(rank, Axis::kPp, pipeline::peer_stage(mesh, rank, lane))};
    default: {
      std::vector<int64_t> world(static_cast<size_t>(mesh.world_size()));
      std::iota(world.begin(), world.end(), 0);
      return world;
    }
  }
}

}  // namespace hawser::parallel
