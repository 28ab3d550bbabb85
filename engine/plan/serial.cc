#include "engine/plan/serial.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "engine/plan/plan_builder.h"

namespace hawser::plan {
namespace {

using enum Operand;
using Named = PlanBuilder::Named;

bool travels(Neighbour n) { return n == Neighbour::kNext || n == Neighbour::kPrevious; }

/// A training step: lays down the instructions of each action.
class Schedule {
 public:
  Schedule(const Sizes& sizes, const Stage& stage, int32_t micro_batches, Accumulation accumulation)
      : b_("train", sizes, stage),
        s_(sizes),
        stage_(stage),
        micro_batches_(micro_batches),
        accumulation_(accumulation),
        trees_(stage.chunks.size()) {}

  Plan make() {
    load();
    for (size_t i = 0; i < stage_.actions.size(); ++i) {
      // What the next action needs travels while this one computes.
      if (i == 0) receive_for(stage_.actions[0]);
      const size_t first = b_.plan().instructions.size();
      if (i + 1 < stage_.actions.size()) receive_for(stage_.actions[i + 1]);
      act(stage_.actions[i]);
      hold_what_travels(first);
    }
    for (const std::vector<SlotId>& slots : held_)
      for (const SlotId slot : slots) b_.plan().instructions.back().holds.push_back(slot);
    update();
    return b_.take();
  }

 private:
  /// What a chunk keeps of a micro-batch from its forward to its backward.
  struct InFlight {
    std::vector<SlotId> inputs, saved;  // of its blocks, from its first
    SlotId x = -1;                      // what it starts with, then what it leaves
    SlotId dx = -1;                     // the gradient of what it leaves, then of what it started with
    SlotId head_gradient = -1;          // the head's part of the gradient of its table, from another stage
  };
  struct Subtree {
    std::vector<SlotId> gradients;
    int32_t micro_batches;
  };

  const ModelChunk& chunk(const Action& a) const { return stage_.chunks[static_cast<size_t>(a.chunk)]; }
  InFlight& in_flight(const Action& a) { return in_flight_[{a.chunk, a.micro_batch}]; }
  SlotId batch(int32_t mb) const { return batches_[static_cast<size_t>(mb)]; }
  bool is_backward(const Action& a) const { return a.part != Part::kForward; }
  /// Whether the gradient of a shared table is complete after this micro-batch: look-ups then join it.
  bool joins(int32_t mb) const { return accumulation_ != Accumulation::kInPlace || mb + 1 == micro_batches_; }
  /// Whether a gradient passes the border below the block.
  bool reaches_below(int32_t block) const { return block > s_.first_trainable; }
  bool rounds_gradients() const {
    return std::any_of(s_.state.begin(), s_.state.end(),
                       [](const BlockState& st) { return st.gradient_window > 0; });
  }

  void load();
  void receive_for(const Action& action);
  void hold_what_travels(size_t first);
  void act(const Action& action) { is_backward(action) ? backward(action) : forward(action); }
  void forward(const Action& action);
  void backward(const Action& action);
  void loss(int32_t mb, const InFlight& f, SlotId losses, const std::vector<SlotId>& gradients,
            bool accumulate);
  void add_table_gradient(int32_t mb);
  void backward_block(int32_t mb, int32_t block, const InFlight& f, size_t at,
                      const std::vector<SlotId>& gradients, bool accumulate);
  SlotId recompute(int32_t mb, int32_t block, SlotId x);
  void backward_embedding(int32_t mb, SlotId dx, const std::vector<SlotId>& gradients, bool accumulate);
  SlotId dx_slot(const Action& action);
  void send(Op op, Neighbour to, int32_t mb, SlotId slot);

  std::vector<SlotId> fresh_gradients(const Action& action);
  SlotId window(int32_t mb, int32_t block, const char* name = "gradient_window");
  /// Where a backward pass writes a block's gradients.
  SlotId written(int32_t mb, int32_t block, const std::vector<SlotId>& gradients) {
    return rounds_gradients() ? window(mb, block) : gradients[static_cast<size_t>(block)];
  }
  void round(Op op, int32_t mb, int32_t block, SlotId from, SlotId to, bool accumulate);
  void join(int32_t mb, SlotId head_part, SlotId gradients);
  void add_subtrees(const Action& action);
  void update();

  PlanBuilder b_;
  const Sizes& s_;
  const Stage& stage_;
  const int32_t micro_batches_;
  const Accumulation accumulation_;
  std::vector<SlotId> batches_;
  std::map<std::pair<int32_t, int32_t>, InFlight> in_flight_;  // keyed by chunk and micro-batch
  std::vector<std::vector<Subtree>> trees_;                    // by chunk
  SlotId table_gradient_ = -1;                                 // of add_table_gradient
  std::vector<SlotId> sent_;                                   // by the last action
  std::deque<std::vector<SlotId>> held_;                       // by those before
};

void Schedule::load() {
  std::vector<Named> counted;
  for (int32_t mb = 0; mb < micro_batches_; ++mb) {
    batches_.push_back(b_.load(mb, s_.batch));
    counted.push_back({kBatch, batches_.back()});
  }
  b_.add(Op::kCountTokens, -1, -1, counted, {{kScalars, b_.scalars()}});
}

void Schedule::receive_for(const Action& a) {
  const ModelChunk& c = chunk(a);
  if (!is_backward(a) && travels(c.below)) {
    in_flight(a).x =
        b_.transient(fmt::format("x{}.{}", c.begin, a.micro_batch), Category::kActivations, s_.residual);
    b_.receive(Op::kRecvF, c.below, a.micro_batch, in_flight(a).x);
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

void Schedule::send(Op op, Neighbour to, int32_t mb, SlotId slot) {
  b_.send(op, to, mb, slot, s_.residual);
  sent_.push_back(slot);
}

/// What was sent stays until so many actions later (Stage::keeps_sent).
void Schedule::hold_what_travels(size_t first) {
  std::vector<Instruction>& all = b_.plan().instructions;
  held_.push_back(std::exchange(sent_, {}));
  if (held_.size() <= stage_.keeps_sent || first == all.size()) return;
  for (const SlotId slot : held_.front()) all[first].holds.push_back(slot);
  held_.pop_front();
}

void Schedule::forward(const Action& a) {
  const ModelChunk& c = chunk(a);
  InFlight& f = in_flight(a);
  if (c.below == Neighbour::kHere) f.x = in_flight({a.part, a.chunk - 1, a.micro_batch}).x;
  for (int32_t block = c.begin; block < std::min(c.end, s_.head()); ++block) {
    const auto [y, saved] = b_.forward(a.micro_batch, block, f.x, batch(a.micro_batch));
    f.inputs.push_back(f.x);
    f.saved.push_back(saved);
    f.x = y;
  }
  if (travels(c.above)) send(Op::kSendF, c.above, a.micro_batch, f.x);
}

SlotId Schedule::dx_slot(const Action& a) {
  const std::string of_chunk = stage_.chunks.size() > 1 ? std::to_string(a.chunk) : "";
  return b_.transient(fmt::format("dx{}.{}", of_chunk, a.micro_batch), Category::kActivations, s_.residual);
}

/// Gradients of micro-batches are added in ascending order, unless each is reduced for itself or they form a tree.
void Schedule::backward(const Action& a) {
  const ModelChunk& c = chunk(a);
  InFlight& f = in_flight(a);
  const int32_t mb = a.micro_batch;
  const bool tree = accumulation_ == Accumulation::kTree;
  const bool accumulate = accumulation_ == Accumulation::kInPlace && mb > 0;
  if (tree)
    trees_[static_cast<size_t>(a.chunk)].push_back({mb == 0 ? b_.gradients() : fresh_gradients(a), 1});
  const std::vector<SlotId> gradients =
      tree ? trees_[static_cast<size_t>(a.chunk)].back().gradients : b_.gradients();

  if (c.above == Neighbour::kHere) f.dx = in_flight({a.part, a.chunk + 1, mb}).dx;
  if (c.has(s_.head())) {
    const SlotId losses = b_.transient(fmt::format("losses.{}", mb), Category::kStaging, s_.losses);
    f.dx = dx_slot(a);
    loss(mb, f, losses, gradients, accumulate);
  }
  for (int32_t block = std::min(c.end, s_.head()) - 1; block >= std::max({c.begin, 1, s_.first_trainable});
       --block)
    backward_block(mb, block, f, static_cast<size_t>(block - c.begin), gradients, accumulate);
  if (c.has(0) && s_.first_trainable == 0) backward_embedding(mb, f.dx, gradients, accumulate);
  if (travels(c.below) && reaches_below(c.begin)) send(Op::kSendB, c.below, mb, f.dx);

  if (c.has(0) && b_.lookup_gradient() >= 0 && joins(mb)) join(mb, f.head_gradient, gradients[0]);
  if (tree) add_subtrees(a);
}

void Schedule::loss(int32_t mb, const InFlight& f, SlotId losses, const std::vector<SlotId>& gradients,
                    bool accumulate) {
  const bool rounds = rounds_gradients();
  const Operand result = rounds ? kWindow : kGradients;
  std::vector<Named> reads = b_.head_reads(f.x, batch(mb));
  reads.insert(reads.begin() + 2, {kScalars, b_.scalars()});
  // The head's part of the gradient of a tied table comes first.
  const bool tied = b_.lookup_gradient() >= 0 || s_.one_tied_gradient;
  const SlotId head_made = written(mb, s_.head(), gradients);
  const bool elsewhere = s_.head_gradient > 0 && !stage_.has(0);
  if (elsewhere && (mb == 0 || joins(mb - 1))) add_table_gradient(mb);
  const SlotId shared = elsewhere ? table_gradient_
                        : !tied   ? -1
                        : rounds  ? window(mb, 0, "head_gradient_window")
                                  : gradients[0];
  b_.add(Op::kLoss, mb, s_.head(), reads,
         {{kLosses, losses}, {kDx, f.dx}, {result, head_made}, {result, shared}}, s_.loss)
      .accumulate = accumulate && !rounds;
  if (rounds) round(Op::kRoundGrad, mb, s_.head(), head_made, gradients.back(), accumulate);
  if (rounds) round(Op::kRoundHeadGrad, mb, 0, shared, gradients[0], accumulate);
  if (elsewhere && joins(mb)) {
    b_.pass(Op::kSendTableGrad, Lane::kTableGradient, table_gradient_, s_.head_gradient);
    sent_.push_back(table_gradient_);
  }
}

/// Where the head writes its part of the gradient of a table that another stage has.
void Schedule::add_table_gradient(int32_t mb) {
  table_gradient_ = b_.plan().add_slot({fmt::format("table_gradient.{}", mb), Category::kBuckets,
                                        s_.table_gradient, false, Role::kGradients, 0});
}

void Schedule::backward_block(int32_t mb, int32_t block, const InFlight& f, size_t at,
                              const std::vector<SlotId>& gradients, bool accumulate) {
  const bool rounds = rounds_gradients();
  const auto i = static_cast<size_t>(block);
  const SlotId saved = s_.recompute ? recompute(mb, block, f.inputs[at]) : f.saved[at];
  const SlotId made = written(mb, block, gradients);
  b_.add(Op::kBackward, mb, block,
         {{kX, f.inputs[at]}, {kSaved, saved}, {kBatch, batch(mb)}, {kWeights, b_.weights(block)}},
         {{kDx, f.dx}, {rounds ? kWindow : kGradients, made}}, s_.block_backward[i - 1])
      .accumulate = accumulate && !rounds;
  if (rounds) round(Op::kRoundGrad, mb, block, made, gradients[i], accumulate);
}

/// Makes again what the block saved in its forward (Chen et al., arXiv:1604.06174). Dropout is drawn by counters, so it is the
/// same; what the block passed on is made too, and dropped.
SlotId Schedule::recompute(int32_t mb, int32_t block, SlotId x) {
  const Cost& cost = s_.block_forward[static_cast<size_t>(block) - 1];
  const SlotId saved =
      b_.transient(fmt::format("recomputed{}.{}", block, mb), Category::kActivations, cost.saved);
  const SlotId y = b_.transient(fmt::format("y{}.{}", block, mb), Category::kActivations, s_.residual);
  b_.add(Op::kRecompute, mb, block, {{kX, x}, {kBatch, batch(mb)}, {kWeights, b_.weights(block)}},
         {{kY, y}, {kSaved, saved}}, cost);
  return saved;
}

void Schedule::backward_embedding(int32_t mb, SlotId dx, const std::vector<SlotId>& gradients,
                                  bool accumulate) {
  const bool rounds = rounds_gradients();
  const SlotId made = written(mb, 0, gradients);
  b_.add(Op::kBackward, mb, 0, {{kBatch, batch(mb)}},
         {{kDx, dx}, {rounds ? kWindow : kGradients, made}, {kLookupGradient, b_.lookup_gradient()}},
         s_.embedding_backward)
      .accumulate = accumulate && !rounds;
  if (rounds) round(Op::kRoundGrad, mb, 0, made, gradients[0], accumulate);
}

/// Where a backward pass writes f32 gradients that are stored narrower; -1 for a block without gradients.
SlotId Schedule::window(int32_t mb, int32_t block, const char* name) {
  return b_.plan().add_slot({fmt::format("{}.{}.{}", name, block, mb), Category::kBuckets,
                             s_.state[static_cast<size_t>(block)].gradient_window, false,
                             Role::kGradientWindow, block});
}

void Schedule::round(Op op, int32_t mb, int32_t block, SlotId from, SlotId to, bool accumulate) {
  if (from >= 0) b_.add(op, mb, block, {{kWindow, from}}, {{kGradients, to}}).accumulate = accumulate;
}

void Schedule::join(int32_t mb, SlotId head_part, SlotId gradients) {
  b_.add(Op::kJoinHeadGrad, mb, 0, {{kLookupGradient, b_.lookup_gradient()}, {kAddend, head_part}},
         {{kGradients, gradients}})
      .accumulate = true;
}

/// Gradients of a micro-batch of a tree, for the blocks of a chunk.
std::vector<SlotId> Schedule::fresh_gradients(const Action& a) {
  std::vector<SlotId> slots(s_.state.size(), -1);
  for (int32_t block = chunk(a).begin; block < chunk(a).end; ++block) {
    const auto b = static_cast<size_t>(block);
    slots[b] = b_.plan().add_slot({fmt::format("gradients.{}.{}", b, a.micro_batch), Category::kGradients,
                                   s_.state[b].gradient_bucket, false, Role::kGradients, block});
  }
  return slots;
}

/// A binary counter of finished subtrees. The final sum ends up in the gradients of micro-batch 0.
void Schedule::add_subtrees(const Action& a) {
  std::vector<Subtree>& stack = trees_[static_cast<size_t>(a.chunk)];
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

/// Norms from the head down, in the order in which gradients become final; updates from the embedding up, in
/// the order in which the next step needs the weights.
void Schedule::update() {
  const std::vector<SlotId>& gradients = b_.gradients();
  for (int32_t b = s_.head(); b >= 0; --b)
    if (gradients[static_cast<size_t>(b)] >= 0 || s_.state[static_cast<size_t>(b)].gradient_bucket > 0)
      b_.add(Op::kGradNorm, -1, b, {{kGradients, gradients[static_cast<size_t>(b)]}}, {{kNorm, b_.norm()}},
             {s_.norm_workspace});
  b_.add(Op::kGradNorm, -1, -1, {{kNorm, b_.norm()}}, {{kNorm, b_.norm()}});
  b_.commit_begins();
  for (int32_t b = 0; b <= s_.head(); ++b) {
    const auto i = static_cast<size_t>(b);
    if (s_.state[i].gradient_bucket == 0) continue;
    const Plan& plan = b_.plan();
    b_.add(Op::kOptimizerStep, -1, b, {{kGradients, gradients[i]}, {kScalars, b_.scalars()}},
           {{kWeights, b_.weights(b)},
            {kMaster, find_state(plan, Role::kMaster, b)},
            {kMoment1, find_state(plan, Role::kMoment1, b)},
            {kMoment2, find_state(plan, Role::kMoment2, b)}});
    if (b == 0 && s_.sent_table > 0 && !stage_.has(s_.head()))
      b_.pass(Op::kSendTable, Lane::kTable, b_.weights(0), s_.sent_table);
  }
  if (s_.sent_table > 0 && !stage_.has(0) && stage_.has(s_.head()))
    b_.pass(Op::kRecvTable, Lane::kTable, b_.weights(0), 0);
}

}  // namespace

Stage whole_model(int32_t blocks, int32_t micro_batches) {
  Stage stage{{{0, blocks, Neighbour::kNone, Neighbour::kNone}}, {}};
  for (int32_t mb = 0; mb < micro_batches; ++mb)
    for (const Part part : {Part::kForward, Part::kBackward}) stage.actions.push_back({part, 0, mb});
  return stage;
}

Plan train_plan(const Sizes& sizes, const Stage& stage, int32_t micro_batches, Accumulation accumulation) {
  return Schedule(sizes, stage, micro_batches, accumulation).make();
}

}  // namespace hawser::plan
