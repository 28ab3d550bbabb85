// TrainingStep: emits the instructions of a training step, one action of a stage after the other.
// training_backward.cc has the backward, serial.cc the rest.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "engine/plan/plan_builder.h"

namespace hawser::plan {

class TrainingStep {
 public:
  TrainingStep(const Sizes& sizes, const Stage& stage, int32_t micro_batches, Accumulation accumulation)
      : b_("train", sizes, stage),
        s_(sizes),
        stage_(stage),
        micro_batches_(micro_batches),
        accumulation_(accumulation),
        trees_(stage.chunks.size()) {}

  Plan make();

 private:
  /// Slots of a chunk for one micro-batch, from its forward to its backward.
  struct InFlight {
    std::vector<SlotId> inputs, made;  // indexed from the chunk's first block
    std::vector<PlanBuilder::Saved> saved;
    std::vector<SlotId> windows;    // where input pass and weight pass write gradients
    std::vector<SlotId> gradients;  // by block, from the input pass on
    PlanBuilder::Stream x;          // the chunk's input, replaced by its output
    SlotId dx = -1;                 // the gradient of the chunk's output, replaced by that of its input
    SlotId rounded_dx = -1;         // dx, rounded to bf16
    SlotId head_gradient = -1;      // the head's part of the gradient of its table, from another stage
  };
  struct Subtree {
    std::vector<SlotId> gradients;
    int32_t micro_batches;
  };

  const ModelChunk& chunk(const Action& a) const { return stage_.chunks[static_cast<size_t>(a.chunk)]; }
  InFlight& in_flight(const Action& a) { return in_flight_[{a.chunk, a.micro_batch}]; }
  SlotId batch(int32_t mb) const { return batches_[static_cast<size_t>(mb)]; }
  /// True if the action needs the gradient from the chunk above.
  bool is_backward(const Action& a) const {
    return a.part == Part::kBackward || a.part == Part::kBackwardInput;
  }
  /// True if the gradient of a shared table is complete after this micro-batch, so that the look-ups' part is
  /// added.
  bool joins(int32_t mb) const { return accumulation_ != Accumulation::kInPlace || mb + 1 == micro_batches_; }
  bool accumulates(int32_t mb) const { return accumulation_ == Accumulation::kInPlace && mb > 0; }
  /// True if a gradient passes from the block to the block below it.
  bool reaches_below(int32_t block) const { return block > s_.first_trainable; }
  /// True if a backward writes the block's gradients to a window, from which they are rounded.
  bool has_window(int32_t block) const { return s_.state[static_cast<size_t>(block)].gradient_window > 0; }

  void load();
  size_t after(size_t action) const { return action + (stage_.actions[action].overlaps_next ? 2 : 1); }
  void receive_from(size_t action);
  void receive_for(const Action& action);
  void hold_what_travels(size_t first);
  void act(const Action& action);
  void pair(const Action& forward, const Action& backward);
  bool exchanges_beside() const;
  void pair_last_two();
  // A forward consists of its beginning, its blocks from the lowest, and its end; a backward consists of its
  // beginning, its blocks from the highest, and its end.
  std::vector<int32_t> forward_blocks(const Action& action) const;
  std::vector<int32_t> backward_blocks(const Action& action) const;
  void begin_forward(const Action& action);
  void forward_block(const Action& action, int32_t block);
  bool leaves_sum(const Action& action, int32_t block) const;
  void end_forward(const Action& action);
  void begin_backward(const Action& action);
  void backward_block(const Action& action, int32_t block);
  void end_backward(const Action& action);
  void weights(const Action& action);
  void loss(int32_t mb, InFlight* f, SlotId losses, const std::vector<SlotId>& gradients, bool accumulate);
  void add_table_gradient(int32_t mb);
  void backward_input(int32_t mb, int32_t block, InFlight* f, size_t at, bool accumulate);
  void backward_weight(int32_t mb, int32_t block, const InFlight& f, size_t at, bool accumulate);
  void recompute(const Action& action, const RecomputeSegment& segment);
  void backward_embedding(int32_t mb, SlotId dx, const std::vector<SlotId>& gradients, bool accumulate);
  SlotId dx_slot(const Action& action);
  void round_dx(const Action& action);
  void send(Op op, Neighbour to, int32_t mb, SlotId slot);

  std::vector<SlotId> fresh_gradients(const Action& action);
  SlotId window(int32_t mb, int32_t block, const char* name = "gradient_window");
  /// Returns the slot to which a backward pass writes a block's gradients.
  SlotId written(int32_t mb, int32_t block, const std::vector<SlotId>& gradients) {
    return has_window(block) ? window(mb, block) : gradients[static_cast<size_t>(block)];
  }
  void round(Op op, int32_t mb, int32_t block, SlotId from, SlotId to, bool accumulate);
  void join(int32_t mb, SlotId head_part, SlotId gradients);
  void add_subtrees(const Action& action);
  void update();
  void add_directions();
  void add_direction(int32_t block, bool experts);
  void orthogonalise(int32_t block, bool experts);
  bool scatters() const;

  PlanBuilder b_;
  const Sizes& s_;
  const Stage& stage_;
  const int32_t micro_batches_;
  const Accumulation accumulation_;
  std::vector<SlotId> batches_;
  std::map<std::pair<int32_t, int32_t>, InFlight> in_flight_;      // keyed by chunk and micro-batch
  std::vector<std::vector<Subtree>> trees_;                        // by chunk
  SlotId table_gradient_ = -1;                                     // set by add_table_gradient
  std::map<std::pair<int32_t, bool>, SlotId> directions_, parts_;  // keyed by block and experts
  std::vector<SlotId> sent_;                                       // slots that the last action sent
  std::deque<std::vector<SlotId>> held_;                           // slots that earlier actions sent
};

}  // namespace hawser::plan
