// Backward of a training step: emits losses, the backwards of blocks (in one pass or two), RECOMPUTE of the
// stage's segments, and the accumulation of gradients.
#include <fmt/format.h>

#include "engine/plan/training_step.h"

namespace hawser::plan {
namespace {

using enum Operand;
using Named = PlanBuilder::Named;

}  // namespace

SlotId TrainingStep::dx_slot(const Action& a) {
  const std::string of_chunk = stage_.chunks.size() > 1 ? std::to_string(a.chunk) : "";
  return b_.transient(fmt::format("dx{}.{}", of_chunk, a.micro_batch), Category::kActivations, s_.dx);
}

/// Gradients of micro-batches are added in ascending order, unless each micro-batch is reduced separately or
/// the sum is a tree.
void TrainingStep::begin_backward(const Action& a) {
  const ModelChunk& c = chunk(a);
  InFlight& f = in_flight(a);
  const int32_t mb = a.micro_batch;
  f.gradients = accumulation_ == Accumulation::kTree && mb > 0 ? fresh_gradients(a) : b_.gradients();
  if (c.above == Neighbour::kHere) {
    const InFlight& above = in_flight({a.part, a.chunk + 1, mb});
    f.dx = above.dx, f.rounded_dx = above.rounded_dx;
  }
  if (!c.has(s_.head())) return round_dx(a);
  const SlotId losses = b_.transient(fmt::format("losses.{}", mb), Category::kStaging, s_.losses);
  f.dx = dx_slot(a);
  loss(mb, &f, losses, f.gradients, accumulates(mb));
  round_dx(a);
}

/// Rounds the gradient that LOSS or another stage computed. The backward of a block rounds its own.
void TrainingStep::round_dx(const Action& a) {
  InFlight& f = in_flight(a);
  if (s_.rounded_dx == 0 || f.rounded_dx >= 0 || backward_blocks(a).empty()) return;
  f.rounded_dx = b_.transient(fmt::format("rounded_{}", b_.plan().slot(f.dx).name), Category::kActivations,
                              s_.rounded_dx);
  b_.add(Op::kRoundDx, a.micro_batch, -1, {{kDx, f.dx}}, {{kRoundedDx, f.rounded_dx}}, s_.round_dx);
}

void TrainingStep::end_backward(const Action& a) {
  const ModelChunk& c = chunk(a);
  const InFlight& f = in_flight(a);
  const int32_t mb = a.micro_batch;
  if (c.has(0) && s_.first_trainable == 0) backward_embedding(mb, f.dx, f.gradients, accumulates(mb));
  if (travels(c.below) && reaches_below(c.begin)) send(Op::kSendB, c.below, mb, f.dx);
  if (c.has(0) && b_.lookup_gradient() >= 0 && joins(mb)) join(mb, f.head_gradient, f.gradients[0]);
}

/// Emits the weight passes, possibly long after the input passes, and the additions of a tree.
void TrainingStep::weights(const Action& a) {
  const InFlight& f = in_flight(a);
  for (const int32_t block : backward_blocks(a))
    if (a.part == Part::kBackwardWeight && s_.in_halves(block))
      backward_weight(a.micro_batch, block, f, static_cast<size_t>(block - chunk(a).begin),
                      accumulates(a.micro_batch));
  if (accumulation_ == Accumulation::kTree) add_subtrees(a);
}

void TrainingStep::loss(int32_t mb, InFlight* f, SlotId losses, const std::vector<SlotId>& gradients,
                        bool accumulate) {
  const bool rounds = has_window(s_.head()) || has_window(0);
  const Operand result = rounds ? kWindow : kGradients;
  PlanBuilder::Stream& x = f->x;
  b_.add_sum(mb, s_.head(), &x);
  if (s_.weighs_targets) {
    b_.add(Op::kLogprobs, mb, s_.head(), b_.head_reads(x, batch(mb)),
           {{kX, x.is_sum() ? x.x : -1}, {kLosses, losses}}, x.is_sum() ? s_.loss_eval_of_sum : s_.loss_eval);
    b_.add(Op::kObjective, mb, -1, {{kLosses, losses}}, {{kBatch, batch(mb)}});
    x = {x.x};
  }
  std::vector<Named> reads = b_.head_reads(x, batch(mb));
  reads.insert(reads.begin() + 4, {kScalars, b_.scalars()});
  if (s_.loss_reads_table && !s_.tied_head) reads.push_back({kWeights, b_.weights(0)});
  // If LOSS also reads the embedding's table, it computes its part of the table's gradient first.
  const bool tied = b_.lookup_gradient() >= 0 || s_.one_tied_gradient;
  const SlotId head_made = written(mb, s_.head(), gradients);
  const bool elsewhere = s_.head_gradient > 0 && !stage_.has(0);
  if (elsewhere && (mb == 0 || joins(mb - 1))) add_table_gradient(mb);
  const SlotId shared = elsewhere ? table_gradient_
                        : !tied   ? -1
                        : rounds  ? window(mb, 0, "head_gradient_window")
                                  : gradients[0];
  b_.add(
        Op::kLoss, mb, s_.head(), reads,
        {{kX, x.is_sum() ? x.x : -1}, {kLosses, losses}, {kDx, f->dx}, {result, head_made}, {result, shared}},
        x.is_sum() ? s_.loss_of_sum : s_.loss)
      .accumulate = accumulate && !rounds;
  if (rounds) round(Op::kRoundGrad, mb, s_.head(), head_made, gradients.back(), accumulate);
  if (rounds) round(Op::kRoundHeadGrad, mb, 0, shared, gradients[0], accumulate);
  if (elsewhere && joins(mb)) {
    b_.pass(Op::kSendTableGrad, Lane::kTableGradient, table_gradient_, s_.head_gradient);
    sent_.push_back(table_gradient_);
  }
}

/// Adds the slot for the head's part of the gradient of a table that another stage has.
void TrainingStep::add_table_gradient(int32_t mb) {
  table_gradient_ = b_.plan().add_slot({fmt::format("table_gradient.{}", mb), Category::kBuckets,
                                        s_.table_gradient, false, Role::kGradients, 0});
}

void TrainingStep::backward_block(const Action& a, int32_t block) {
  InFlight* const f = &in_flight(a);
  const int32_t mb = a.micro_batch;
  const auto at = static_cast<size_t>(block - chunk(a).begin), i = static_cast<size_t>(block);
  const bool accumulate = accumulates(mb), rounds = has_window(block);
  for (const RecomputeSegment& segment : stage_.recompute)
    if (segment.end == block + 1) recompute(a, segment);
  if (s_.in_halves(block)) return backward_input(mb, block, f, at, accumulate);
  const SlotId made = written(mb, block, f->gradients);
  b_.add(Op::kBackward, mb, block,
         {{kX, f->inputs[at]},
          {kSaved, f->saved[at].saved},
          {kRecomputed, f->saved[at].remade},
          {kBatch, batch(mb)},
          {kWeights, b_.weights(block)}},
         {{kDx, f->dx}, {kRoundedDx, f->rounded_dx}, {rounds ? kWindow : kGradients, made}},
         s_.block_backward[i - 1])
      .accumulate = accumulate && !rounds;
  if (rounds) round(Op::kRoundGrad, mb, block, made, f->gradients[i], accumulate);
}

/// Emits the input pass of a block. Its weight pass adds to the same gradients or the same window.
void TrainingStep::backward_input(int32_t mb, int32_t block, InFlight* f, size_t at, bool accumulate) {
  const bool rounds = has_window(block);
  const Cost& cost = s_.block_backward_input[static_cast<size_t>(block) - 1];
  f->made.resize(f->inputs.size(), -1), f->windows.resize(f->inputs.size(), -1);
  f->made[at] = b_.transient(fmt::format("made{}.{}", block, mb), Category::kActivations, cost.made);
  const SlotId to = f->windows[at] = written(mb, block, f->gradients);
  b_.add(Op::kBackwardInput, mb, block,
         {{kX, f->inputs[at]},
          {kSaved, f->saved[at].saved},
          {kSavedForWeightPass, f->saved[at].kept},
          {kRecomputed, f->saved[at].remade},
          {kRecomputedForWeightPass, f->saved[at].remade_kept},
          {kBatch, batch(mb)},
          {kWeights, b_.weights(block)}},
         {{kDx, f->dx},
          {kRoundedDx, f->rounded_dx},
          {kWeightPassInputs, f->made[at]},
          {rounds ? kWindow : kGradients, to}},
         cost)
      .accumulate = accumulate && !rounds;
}

void TrainingStep::backward_weight(int32_t mb, int32_t block, const InFlight& f, size_t at, bool accumulate) {
  const bool rounds = has_window(block);
  const auto i = static_cast<size_t>(block);
  b_.add(Op::kBackwardWeight, mb, block,
         {{kSavedForWeightPass, f.saved[at].kept},
          {kRecomputedForWeightPass, f.saved[at].remade_kept},
          {kWeightPassInputs, f.made[at]},
          {kBatch, s_.weight_half_reads ? batch(mb) : -1},
          {kWeights, s_.weight_half_reads ? b_.weights(block) : -1}},
         {{rounds ? kWindow : kGradients, f.windows[at]}}, s_.block_backward_weight[i - 1])
      .accumulate = accumulate && !rounds;
  if (rounds) round(Op::kRoundGrad, mb, block, f.windows[at], f.gradients[i], accumulate);
}

/// Every block except the last also recomputes its output, the unsaved input of the next block.
void TrainingStep::recompute(const Action& a, const RecomputeSegment& segment) {
  InFlight& f = in_flight(a);
  for (int32_t i = segment.begin; i < segment.end; ++i) {
    const auto at = static_cast<size_t>(i - chunk(a).begin), layer = static_cast<size_t>(i) - 1;
    const bool last = i + 1 == segment.end;
    PlanBuilder::Saved& saved = f.saved[at];
    b_.add_remade("recomputed", a.micro_batch, i, &saved);
    const SlotId y = last ? -1
                          : b_.transient(fmt::format("recomputed_x{}.{}", i + 1, a.micro_batch),
                                         Category::kActivations, s_.residual);
    b_.add(Op::kRecompute, a.micro_batch, i,
           {{kX, f.inputs[at]}, {kBatch, batch(a.micro_batch)}, {kWeights, b_.weights(i)}},
           {{kY, y},
            {kSaved, saved.saved},
            {kSavedForWeightPass, saved.kept},
            {kRecomputed, saved.remade},
            {kRecomputedForWeightPass, saved.remade_kept}},
           last ? s_.block_recompute[layer] : s_.block_repeat[layer]);
    if (!last) f.inputs[at + 1] = y;
  }
}

void TrainingStep::backward_embedding(int32_t mb, SlotId dx, const std::vector<SlotId>& gradients,
                                      bool accumulate) {
  const bool rounds = has_window(0);
  const SlotId made = written(mb, 0, gradients);
  b_.add(Op::kBackward, mb, 0, {{kBatch, batch(mb)}},
         {{kDx, dx}, {rounds ? kWindow : kGradients, made}, {kLookupGradient, b_.lookup_gradient()}},
         s_.embedding_backward)
      .accumulate = accumulate && !rounds;
  if (rounds) round(Op::kRoundGrad, mb, 0, made, gradients[0], accumulate);
}

/// Adds the slot for f32 gradients of one backward that are stored narrower; returns -1 for a block without
/// gradients.
SlotId TrainingStep::window(int32_t mb, int32_t block, const char* name) {
  return b_.plan().add_slot({fmt::format("{}.{}.{}", name, block, mb), Category::kBuckets,
                             s_.state[static_cast<size_t>(block)].gradient_window, false,
                             Role::kGradientWindow, block});
}

void TrainingStep::round(Op op, int32_t mb, int32_t block, SlotId from, SlotId to, bool accumulate) {
  const Work& work = op == Op::kRoundGrad ? s_.state[static_cast<size_t>(block)].round : s_.round_head;
  if (from >= 0)
    b_.add(op, mb, block, {{kWindow, from}}, {{kGradients, to}}, {.work = work}).accumulate = accumulate;
}

void TrainingStep::join(int32_t mb, SlotId head_part, SlotId gradients) {
  b_.add(Op::kJoinHeadGrad, mb, 0, {{kLookupGradient, b_.lookup_gradient()}, {kAddend, head_part}},
         {{kGradients, gradients}}, {.work = {s_.join, s_.join}})
      .accumulate = true;
}

/// Returns the gradient slots of one micro-batch of a tree, for the blocks of a chunk. A head also writes
/// gradients of its tied table, in whichever chunk of this rank the table is.
std::vector<SlotId> TrainingStep::fresh_gradients(const Action& a) {
  std::vector<SlotId> slots(s_.state.size(), -1);
  const auto& of_head = in_flight_[{static_cast<int32_t>(stage_.chunks.size()) - 1, a.micro_batch}].gradients;
  for (int32_t block = 0; block < std::ssize(s_.state); ++block) {
    const auto b = static_cast<size_t>(block);
    const bool of_table = block == 0 && chunk(a).has(s_.head()) && stage_.has(0);
    if (!chunk(a).has(block) && !of_table) continue;
    if (!of_head.empty() && of_head[b] >= 0) {
      slots[b] = of_head[b];
      continue;
    }
    slots[b] = b_.plan().add_slot({fmt::format("gradients.{}.{}", b, a.micro_batch), Category::kGradients,
                                   s_.state[b].gradient_bucket, false, Role::kGradients, block});
  }
  return slots;
}

/// Adds a finished subtree, as a binary counter adds 1. The final sum ends up in the gradients of micro-batch
/// 0.
void TrainingStep::add_subtrees(const Action& a) {
  std::vector<Subtree>& stack = trees_[static_cast<size_t>(a.chunk)];
  stack.push_back({in_flight(a).gradients, 1});
  while (stack.size() > 1 && stack[stack.size() - 2].micro_batches == stack.back().micro_batches) {
    const std::vector<SlotId>&to = stack[stack.size() - 2].gradients, &from = stack.back().gradients;
    for (int32_t block = chunk(a).end - 1; block >= chunk(a).begin; --block) {
      const auto b = static_cast<size_t>(block);
      if (to[b] >= 0)
        b_.add(Op::kAddGrad, -1, block, {{kAddend, from[b]}}, {{kGradients, to[b]}}).accumulate = true;
    }
    stack.pop_back();
    stack.back().micro_batches *= 2;
  }
}

}  // namespace hawser::plan
