// The bytes that a step sends by the formulas of the papers, printed with a plan. The plan counts them by
// instruction (traffic.h); both must agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/instruction.h"

namespace hawser::parallel {

/// One kind of transfer: the formula, such as "2(N-1)/N·Φg", and the bytes that one rank sends by it in a
/// step.
struct ClosedForm {
  plan::Op op = plan::Op::kReduceGrad;
  std::string formula;
  int64_t bytes = 0;
};

/// Which weights of the model are used again.
struct WeightUses {
  bool tied_head = false;
  int32_t first_trainable = 0;  ///< lowest block with a backward
};

/// Kinds that send nothing are left out. In the formulas N ranks share a copy, R hold the same shard, S form
/// the smaller group, and there are A micro-batches. Φ is the size of all shards together in bytes as sent,
/// with padding: Φg gradients, Φs their sums, Φw weights; Φe, Φb, Φh of embedding, blocks and head; Φb' of
/// the blocks that have a backward, if not all do. Φt: gradients that are summed over all t tensor-parallel
/// ranks; Φk: over the k of them that hold the same key/value heads. With experts that ranks divide, M share
/// a copy of the same ones: of these N is M, and E the size.
std::vector<ClosedForm> closed_forms(const ShardLayout& layout, const DataParallel& strategy,
                                     int64_t micro_batches, const WeightUses& uses);

}  // namespace hawser::parallel
