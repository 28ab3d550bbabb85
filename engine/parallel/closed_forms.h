// The bytes that a step sends, by the formulas of the papers, for readers of a plan. The plan itself counts
// by instruction (traffic.h); both must agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/instruction.h"

namespace hawser::parallel {

/// One kind of transfer: "2(N-1)/N·Φg" and the bytes that one rank sends by it in a step.
struct ClosedForm {
  plan::Op op = plan::Op::kReduceGrad;
  std::string formula;
  int64_t bytes = 0;
};

/// What a model says about which weights are used again.
struct WeightUses {
  bool tied_head = false;
  int32_t first_trainable = 0;  ///< no backward goes below this block
};

/// Kinds that send nothing are left out. In the formulas: N ranks that share a copy, R that hold the same
/// shard, S ranks of the smaller group, A micro-batches; Φ the bytes of all shards together, padded, as they
/// travel: Φg gradients, Φs their sums, Φw weights; Φe, Φb, Φh those of embedding, blocks, head, Φb' of
/// blocks that have a backward, where not all do.
std::vector<ClosedForm> closed_forms(const ShardLayout& layout, const DataParallel& strategy,
                                     int64_t micro_batches, const WeightUses& uses);

}  // namespace hawser::parallel
