// ExpertCalls: the numbers of calls of blocks whose experts are divided among ranks on a device. The host
// stores what it counts in a forward under the call's number until the backward (parallel/expert_parallel.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

#include "engine/plan/plan.h"

namespace hawser::train {

class ExpertCalls {
 public:
  /// Numbers no calls.
  ExpertCalls() = default;
  /// Numbers the calls of the blocks in `plan`. At most `micro_batches` micro-batches are between forward and
  /// backward. All plans of the rank have these blocks.
  ExpertCalls(const plan::Plan& plan, int64_t micro_batches) : micro_batches_(micro_batches) {
    for (const plan::Instruction& n : plan.instructions)
      if (n.host) blocks_.try_emplace(n.block, std::ssize(blocks_));
  }
  int64_t count() const { return micro_batches_ * std::ssize(blocks_); }
  /// Returns 0 for an instruction of another block.
  int64_t number(const plan::Instruction& n) const {
    const auto block = blocks_.find(n.block);
    if (block == blocks_.end()) return 0;
    return std::max(n.micro_batch, 0) % micro_batches_ * std::ssize(blocks_) + block->second;
  }

 private:
  std::map<int32_t, int64_t> blocks_;
  int64_t micro_batches_ = 1;
};

}  // namespace hawser::train
