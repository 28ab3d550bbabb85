// TransferGroup: the ranks that take part in a transfer. The runtime chooses process groups with it
// (bucket_runtime.h), and predictions use it to find which of the ranks are near (cluster/stage_costs.h).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/ledger.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

enum class TransferGroup : uint8_t {
  kShard,          ///< ranks that divide the state of one replica; without sharding, all that sum gradients
  kReplica,        ///< ranks that hold the same shard
  kSecondary,      ///< the secondary shard group of /zero/reshard_group
  kExpertShard,    ///< the same as kShard, of experts that ep divides
  kExpertReplica,  ///< ranks that hold the same shard of such experts
  kTpSums,         ///< ranks that have parts of the same gradients
  kKvSums,         ///< ranks with the same key/value heads
  kTp,             ///< ranks that compute each block together
  kCp,             ///< ranks that divide the tokens of the same rows
  kEp,             ///< ranks that divide experts
  kMatrix,         ///< ranks that hold parts or copies of the same matrices
  kExpertMatrix,   ///< the same, of experts that ep divides
  kStage,          ///< this rank and its neighbour in the pipeline
  kWorld,          ///< all ranks
  kCount
};
inline constexpr size_t kTransferGroups = static_cast<size_t>(TransferGroup::kCount);
/// "shard", "replica", "secondary", "edp", "edp_replica", "tp_sums", "kv_sums", "tp", "cp", "ep", "matrix",
/// "expert_matrix", "stage", "world".
const char* transfer_group_name(TransferGroup group);

/// Returns the group of a transfer between ranks. The instruction must not be of a rank's own lane
/// (plan::is_own).
TransferGroup transfer_group(const plan::Plan& plan, const plan::Instruction& n);

/// Bytes that one rank sends in one collective, or to another rank.
struct Sent {
  TransferGroup group = TransferGroup::kWorld;
  comm::Operation operation = comm::Operation::kAllReduce;
  int64_t bytes = 0;                       ///< by the ring form of the operation (comm/ledger.h)
  int64_t sum_group = 0;                   ///< as in comm::Reduction
  plan::Lane lane = plan::Lane::kCompute;  ///< for kStage: the lane of the message
};

/// Returns what one rank sends in an exchange inside a block.
Sent sent_in(const ExchangeNote& note);
/// Returns what an instruction sends: the collective of a transfer, or the collective with which an
/// instruction of the compute lane starts. `bytes` is 0 at the receiver of a message. Exchanges inside a
/// block are not included.
Sent sent_by(const plan::Plan& plan, const plan::Instruction& n, const DataParallelStrategy& strategy);

/// Returns the world ranks of the group to which the layout's rank belongs, in the order of the group. For
/// kStage, `lane` determines the neighbour, and this rank comes first.
std::vector<int64_t> members_of(TransferGroup group, const ShardLayout& layout, plan::Lane lane);

}  // namespace hawser::parallel
