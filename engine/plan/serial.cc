#include "engine/plan/serial.h"

#include <fmt/format.h>

#include "engine/plan/training_step.h"

namespace hawser::plan {
namespace {

using enum Operand;
using Named = PlanBuilder::Named;

}  // namespace

Plan TrainingStep::make() {
  load();
  // Queues the receives of the next action first, so that its input arrives while this action computes.
  const std::vector<Action>& actions = stage_.actions;
  receive_from(0);
  for (size_t i = 0; i < actions.size(); i = after(i)) {
    const size_t first = b_.plan().instructions.size();
    receive_from(after(i));
    actions[i].overlaps_next ? pair(actions[i], actions[i + 1]) : act(actions[i]);
    hold_what_travels(first);
  }
  for (const std::vector<SlotId>& slots : held_)
    for (const SlotId slot : slots) b_.plan().instructions.back().holds.push_back(slot);
  update();
  b_.plan().micro_batches = micro_batches_;
  return b_.take();
}

void TrainingStep::load() {
  std::vector<Named> counted;
  for (int32_t mb = 0; mb < micro_batches_; ++mb) {
    batches_.push_back(b_.load(mb, s_.batch));
    counted.push_back({kBatch, batches_.back()});
  }
  b_.add(Op::kCountTokens, -1, -1, counted, {{kScalars, b_.scalars()}});
}

/// Receives what an action needs from other stages; for two paired actions, what both need.
void TrainingStep::receive_from(size_t action) {
  if (action == stage_.actions.size()) return;
  for (size_t i = action; i < after(action); ++i) receive_for(stage_.actions[i]);
}

void TrainingStep::receive_for(const Action& a) {
  const ModelChunk& c = chunk(a);
  if (a.part == Part::kForward && travels(c.below)) {
    SlotId& x = in_flight(a).x.x;
    x = b_.transient(fmt::format("x{}.{}", c.begin, a.micro_batch), Category::kActivations, s_.residual);
    b_.receive(Op::kRecvF, c.below, a.micro_batch, x);
  }
  if (is_backward(a) && travels(c.above) && reaches_below(c.end)) {
    in_flight(a).dx = dx_slot(a);
    b_.receive(Op::kRecvB, c.above, a.micro_batch, in_flight(a).dx);
  }
  if (is_backward(a) && c.has(0) && !stage_.has(s_.head()) && s_.head_gradient > 0 && joins(a.micro_batch)) {
    in_flight(a).head_gradient =
        b_.transient(fmt::format("head_gradient.{}", a.micro_batch), Category::kBuckets, s_.head_gradient);
    b_.pass(Op::kRecvTableGrad, Lane::kTableGradient, in_flight(a).head_gradient, 0);
  }
}

void TrainingStep::send(Op op, Neighbour to, int32_t mb, SlotId slot) {
  b_.send(op, to, mb, slot, op == Op::kSendB ? s_.dx : s_.residual);
  sent_.push_back(slot);
}

/// Keeps the memory of sent activations for sent_lifetime_actions more actions (stage.h).
void TrainingStep::hold_what_travels(size_t first) {
  std::vector<Instruction>& all = b_.plan().instructions;
  held_.push_back(std::exchange(sent_, {}));
  if (held_.size() <= stage_.sent_lifetime_actions || first == all.size()) return;
  for (const SlotId slot : held_.front()) all[first].holds.push_back(slot);
  held_.pop_front();
}

void TrainingStep::act(const Action& a) {
  if (a.part == Part::kForward) {
    begin_forward(a);
    for (const int32_t block : forward_blocks(a)) forward_block(a, block);
    return end_forward(a);
  }
  if (is_backward(a)) {
    begin_backward(a);
    for (const int32_t block : backward_blocks(a)) backward_block(a, block);
    end_backward(a);
  }
  if (a.part != Part::kBackwardInput) weights(a);
}

/// Emits the blocks of both actions alternately. If blocks have overlapped exchanges, each backward block
/// overlaps with the forward block that follows it: for example, gradients of rows travel to experts while
/// the forward block computes attention.
void TrainingStep::pair(const Action& forward, const Action& backward) {
  const std::vector<int32_t> up = forward_blocks(forward), down = backward_blocks(backward);
  begin_forward(forward);
  begin_backward(backward);
  const bool beside = exchanges_beside();
  size_t f = 0, b = 0;
  if (beside && up.front() == 0) forward_block(forward, up[f++]);  // the embedding has no partner
  while (f < up.size() || b < down.size()) {
    const bool both = f < up.size() && b < down.size();
    if (beside && b < down.size()) backward_block(backward, down[b++]);
    if (f < up.size()) forward_block(forward, up[f++]);
    if (!beside && b < down.size()) backward_block(backward, down[b++]);
    if (beside && both) pair_last_two();
  }
  end_forward(forward);
  end_backward(backward);
}

bool TrainingStep::exchanges_beside() const {
  return std::any_of(s_.block_forward.begin(), s_.block_forward.end(),
                     [](const Cost& cost) { return any_beside(cost.exchanges); });
}

/// Marks the last two instructions as overlapped if at least one has an exchange during which the other can
/// compute.
void TrainingStep::pair_last_two() {
  std::vector<Instruction>& all = b_.plan().instructions;
  Instruction &one = all[all.size() - 2], &other = all.back();
  one.overlaps_next = one.op == Op::kBackwardInput && other.op == Op::kForward &&
                      (any_beside(one.exchanges) || any_beside(other.exchanges));
}

/// Returns the chunk's blocks without the head, from the lowest.
std::vector<int32_t> TrainingStep::forward_blocks(const Action& a) const {
  std::vector<int32_t> blocks;
  for (int32_t block = chunk(a).begin; block < std::min(chunk(a).end, s_.head()); ++block)
    blocks.push_back(block);
  return blocks;
}

/// Returns the chunk's blocks that a gradient reaches, from the highest, without the head and the embedding.
std::vector<int32_t> TrainingStep::backward_blocks(const Action& a) const {
  const auto [lowest, end] = s_.blocks_with_backward(chunk(a));
  std::vector<int32_t> blocks;
  for (int32_t block = end - 1; block >= lowest; --block) blocks.push_back(block);
  return blocks;
}

void TrainingStep::begin_forward(const Action& a) {
  if (chunk(a).below == Neighbour::kHere) in_flight(a).x = in_flight({a.part, a.chunk - 1, a.micro_batch}).x;
}

void TrainingStep::forward_block(const Action& a, int32_t block) {
  InFlight& f = in_flight(a);
  b_.add_sum(a.micro_batch, block, &f.x);
  const PlanBuilder::Made made =
      b_.forward(a.micro_batch, block, f.x, batch(a.micro_batch), leaves_sum(a, block));
  f.inputs.push_back(f.x.x);
  f.saved.push_back(made.saved);
  f.x = made.y;
}

/// True if the next instruction of the chunk computes the block's last sum. A block without a backward
/// computes its own; otherwise its scratch, which holds x', would have to live longer.
bool TrainingStep::leaves_sum(const Action& a, int32_t block) const {
  return s_.branch > 0 && block >= s_.blocks_with_backward(chunk(a)).first && block + 1 < chunk(a).end;
}

void TrainingStep::end_forward(const Action& a) {
  if (travels(chunk(a).above)) send(Op::kSendF, chunk(a).above, a.micro_batch, in_flight(a).x.x);
}

/// Emits norms from the head down, in the order in which gradients become final, and updates from the
/// embedding up, in the order in which the next step needs the weights.
void TrainingStep::update() {
  const std::vector<SlotId>& gradients = b_.gradients();
  for (int32_t b = s_.head(); b >= 0; --b)
    if (gradients[static_cast<size_t>(b)] >= 0 || s_.state[static_cast<size_t>(b)].gradient_bucket > 0)
      b_.add(Op::kGradNorm, -1, b, {{kGradients, gradients[static_cast<size_t>(b)]}}, {{kNorm, b_.norm()}},
             {.workspace = s_.norm_workspace, .work = s_.state[static_cast<size_t>(b)].norm});
  b_.add(Op::kGradNorm, -1, -1, {{kNorm, b_.norm()}}, {{kNorm, b_.norm()}});
  b_.commit_begins();
  if (scatters()) add_directions();
  for (int32_t b = 0; b <= s_.head(); ++b) {
    const auto i = static_cast<size_t>(b);
    if (s_.state[i].gradient_bucket == 0) continue;
    if (!scatters())
      for (const bool experts : {false, true}) add_direction(b, experts), orthogonalise(b, experts);
    const Plan& plan = b_.plan();
    std::vector<Named> written = {{kWeights, b_.weights(b)}, {kMaster, find_state(plan, Role::kMaster, b)}};
    for (const StateRow& row : kStates) written.push_back({row.operand, find_state(plan, row.role, b)});
    std::vector<Named> read = {{kGradients, gradients[i]}, {kScalars, b_.scalars()}};
    for (const bool experts : {false, true})
      if (const auto found = directions_.find({b, experts}); found != directions_.end())
        read.push_back({kDirection, found->second});
    b_.add(Op::kOptimizerStep, -1, b, read, written, {.work = s_.state[i].update});
    if (b == 0 && s_.sent_table > 0 && !stage_.has(s_.head()))
      b_.pass(Op::kSendTable, Lane::kTable, b_.weights(0), s_.sent_table);
  }
  if (s_.sent_table > 0 && !stage_.has(0) && stage_.has(s_.head()))
    b_.pass(Op::kRecvTable, Lane::kTable, b_.weights(0), 0);
}

Stage whole_model(int32_t blocks, int32_t micro_batches) {
  Stage stage{{{0, blocks, Neighbour::kNone, Neighbour::kNone}}, {}};
  for (int32_t mb = 0; mb < micro_batches; ++mb)
    for (const Part part : {Part::kForward, Part::kBackward}) stage.actions.push_back({part, 0, mb});
  return stage;
}

Plan train_plan(const Sizes& sizes, const Stage& stage, int32_t micro_batches, Accumulation accumulation) {
  return TrainingStep(sizes, stage, micro_batches, accumulation).make();
}

}  // namespace hawser::plan
