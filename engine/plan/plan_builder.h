// PlanBuilder: adds a rank's state, which all plans of the rank share, and then instructions with their
// slots.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/plan/serial.h"

namespace hawser::plan {

class PlanBuilder {
 public:
  /// `sizes` and `stage` must outlive this object.
  PlanBuilder(const char* name, const Sizes& sizes, const Stage& stage);

  Plan take() { return std::move(plan_); }
  Plan& plan() { return plan_; }
  const Sizes& sizes() const { return s_; }
  const Stage& stage() const { return stage_; }
  void commit_begins() { plan_.commit = plan_.instructions.size(); }

  SlotId transient(std::string name, Category category, int64_t bytes) {
    return plan_.add_slot({std::move(name), category, bytes});
  }
  SlotId weights(int32_t block) const { return weights_[static_cast<size_t>(block)]; }
  /// Persistent gradients by block; -1 for a block without them.
  const std::vector<SlotId>& gradients() const { return gradients_; }
  SlotId lookup_gradient() const { return lookup_gradient_; }
  SlotId scalars() const { return scalars_; }
  SlotId norm() const { return norm_; }

  struct Named {
    Operand operand;
    SlotId slot;  // -1 if absent
  };
  Instruction& add(Op op, int32_t mb, int32_t block, const std::vector<Named>& reads,
                   const std::vector<Named>& writes, const Cost& cost = {});
  SlotId load(int32_t mb, int64_t bytes);
  /// Slots that a block saves for its backward; `kept` is for the weight pass, if the backward has two
  /// passes.
  struct Saved {
    SlotId saved = -1, kept = -1, remade = -1, remade_kept = -1;
  };
  /// The residual stream between two blocks: the slot x, or a sum that the reader computes.
  struct Stream {
    SlotId x = -1;                    ///< -1: add_sum will add the slot
    SlotId middle = -1, branch = -1;  ///< the addends of the sum; -1 if x is given
    bool is_sum() const { return branch >= 0; }
  };
  struct Made {
    Stream y;
    Saved saved;
  };
  /// Adds the slots for activations that the block discards and RECOMPUTE rebuilds.
  void add_remade(const char* name, int32_t mb, int32_t block, Saved* saved);
  /// Adds the slot to which a block or the head writes the sum that it reads, if there is no slot yet.
  void add_sum(int32_t mb, int32_t block, Stream* x);
  /// Adds FORWARD of the embedding or a block over a whole micro-batch. `x` is ignored for the embedding. If
  /// `leaves`, the last sum is left to the reader of y.
  Made forward(int32_t mb, int32_t block, const Stream& x, SlotId batch, bool leaves = false);
  /// Returns the operands that the head reads: x or its addends, the micro-batch, its weights, and the
  /// embedding's if it shares them.
  std::vector<Named> head_reads(const Stream& x, SlotId batch) const {
    return {{Operand::kX, x.is_sum() ? -1 : x.x},
            {Operand::kMiddle, x.middle},
            {Operand::kBranch, x.branch},
            {Operand::kBatch, batch},
            {Operand::kWeights, weights(s_.head())},
            {Operand::kWeights, s_.tied_head ? weights(0) : -1}};
  }

  /// send passes x to the chunk above, receive takes x from the chunk below, each on a lane of its own.
  /// `bytes` is the size of the message.
  void send(Op op, Neighbour to, int32_t mb, SlotId slot, int64_t bytes);
  void receive(Op op, Neighbour from, int32_t mb, SlotId slot);
  /// Adds one end of the transfer of a table between its stage and the head's; `bytes` is what this rank
  /// sends.
  void pass(Op op, Lane lane, SlotId slot, int64_t bytes);

 private:
  void add_state();
  Saved add_saved(int32_t mb, int32_t block);
  SlotId state(const char* name, Category category, int64_t bytes, Role role, int32_t block);

  const Sizes& s_;
  const Stage& stage_;
  Plan plan_;
  std::vector<SlotId> weights_, gradients_;
  SlotId lookup_gradient_ = -1, scalars_ = -1, norm_ = -1;
};

}  // namespace hawser::plan
