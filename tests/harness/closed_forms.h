// Closed forms: the bytes that a rank sends in a step by the formulas of the papers, as an oracle. A plan
// counts the bytes of each instruction (parallel/traffic.h), and the ledger counts what was sent; all three
// must agree. parallel/traffic_formulas.h has the formulas as text and explains their symbols.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/instruction.h"

namespace hawser::testing {

/// The bytes that one rank sends in a step by all instructions of one kind.
struct ClosedForm {
  plan::Op op = plan::Op::kReduceGrad;
  int64_t bytes = 0;
};

/// Which weights of the model are used again.
struct WeightUses {
  bool tied_head = false;
  int32_t first_trainable = 0;  ///< lowest block with a backward
};

/// Of transfers between ranks; kinds that send nothing are left out.
std::vector<ClosedForm> closed_forms(const parallel::ShardLayout& layout,
                                     const parallel::DataParallelStrategy& strategy, int64_t micro_batches,
                                     const WeightUses& uses);

/// Whether the plan report gives a formula for what a rank of `config` (JSON) sends if and only if its closed
/// form has the bytes of the plan. Returns "" or each row that differs.
std::string wrong_formulas(const std::string& config);

}  // namespace hawser::testing
