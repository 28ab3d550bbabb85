// TransferGroup: which ranks take part in what an instruction sends. The runtime of transfers takes its
// process groups from here (bucket_runtime.h), and so do forecasts, which need to know who is near.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/ledger.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

enum class TransferGroup : uint8_t {
  kShard,          ///< ranks that share the state of one copy; without sharding all that sum gradients
  kReplica,        ///< ranks that hold the same shard
  kSecondary,      ///< the secondary shard group of /zero/reshard_group
  kExpertShard,    ///< ranks that share the state of the same divided experts
  kExpertReplica,  ///< ranks that hold the same shard of these
  kTpSums,         ///< ranks that have parts of the same gradients
  kKvSums,         ///< ranks with the same key/value heads
  kTp,
  kCp,
  kEp,     ///< ranks that compute a block together
  kStage,  ///< this rank and its neighbour in the pipeline
  kWorld,
  kCount
};
inline constexpr size_t kTransferGroups = static_cast<size_t>(TransferGroup::kCount);
/// "shard", "replica", "secondary", "edp", "edp_replica", "tp_sums", "kv_sums", "tp", "cp", "ep", "stage",
/// "world".
const char* transfer_group_name(TransferGroup group);

/// The ranks of a transfer between ranks. The instruction is none of a rank's own (plan::is_own).
TransferGroup transfer_group(const plan::Plan& plan, const plan::Instruction& n);

/// Bytes that one rank sends in one collective, or to another rank.
struct Sent {
  TransferGroup group = TransferGroup::kWorld;
  comm::Operation operation = comm::Operation::kAllReduce;
  int64_t bytes = 0;                       ///< by the ring form of the operation (comm/ledger.h)
  int64_t sum_group = 0;                   ///< as in comm::Reduction
  plan::Lane lane = plan::Lane::kCompute;  ///< of kStage
};

/// What the ranks of a block send in one of its exchanges.
Sent sent_in(const ExchangeNote& note);
/// What an instruction sends: the collective of a transfer, or with which an instruction of the compute lane
/// starts. `bytes` is 0 at the receiver of a message. The exchanges inside a block are not included.
Sent sent_by(const plan::Plan& plan, const plan::Instruction& n, const DataParallelStrategy& strategy);

/// The world ranks of the group to which the layout's rank belongs, in the order of the group. `lane`: of
/// kStage, whose two ranks are in the order sender, receiver or the reverse.
std::vector<int64_t> members_of(TransferGroup group, const ShardLayout& layout, plan::Lane lane);

}  // namespace hawser::parallel
