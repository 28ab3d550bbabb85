// Plans a pipelined evaluation: different stages process different micro-batches at the same time. A stage
// takes all micro-batches through its first chunk, then through its next.
#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/plan_builder.h"

namespace hawser::plan {
namespace {

using enum Operand;

class EvalPipeline {
 public:
  EvalPipeline(const Sizes& sizes, const Stage& stage, int32_t micro_batches)
      : b_("eval_pipeline", sizes, stage), s_(sizes), stage_(stage), micro_batches_(micro_batches) {}

  Plan make() {
    for (int32_t mb = 0; mb < micro_batches_; ++mb) batches_.push_back(b_.load(mb, s_.batch));
    x_.resize(turns(), -1);
    receive(0);
    for (size_t turn = 0; turn < turns(); ++turn) {
      const size_t first = b_.plan().instructions.size();
      receive(turn + 1);  // queued first, so that it arrives while this turn computes
      forward(turn);
      hold_what_travels(first, turn);
    }
    b_.commit_begins();
    return b_.take();
  }

 private:
  size_t turns() const { return stage_.chunks.size() * static_cast<size_t>(micro_batches_); }
  const ModelChunk& chunk(size_t turn) const {
    return stage_.chunks[turn / static_cast<size_t>(micro_batches_)];
  }
  int32_t micro_batch(size_t turn) const {
    return static_cast<int32_t>(turn % static_cast<size_t>(micro_batches_));
  }

  void receive(size_t turn) {
    if (turn == turns() || !travels(chunk(turn).below)) return;
    x_[turn] = b_.transient(fmt::format("x{}.{}", chunk(turn).begin, micro_batch(turn)),
                            Category::kActivations, s_.residual);
    b_.receive(Op::kRecvF, chunk(turn).below, micro_batch(turn), x_[turn]);
  }

  void forward(size_t turn) {
    const ModelChunk& c = chunk(turn);
    const int32_t mb = micro_batch(turn);
    const SlotId batch = batches_[static_cast<size_t>(mb)];
    SlotId& x = x_[turn];
    if (c.below == Neighbour::kHere) x = x_[turn - static_cast<size_t>(micro_batches_)];
    for (int32_t block = c.begin; block < std::min(c.end, s_.head()); ++block)
      x = b_.forward(mb, block, {x}, batch).y.x;
    if (c.has(s_.head())) {
      const SlotId losses = b_.transient(fmt::format("losses.{}", mb), Category::kStaging, s_.losses);
      b_.add(Op::kEvalLoss, mb, s_.head(), b_.head_reads({x}, batch), {{kLosses, losses}}, s_.loss_eval);
    }
    if (travels(c.above)) b_.send(Op::kSendF, c.above, mb, x, s_.residual);
  }

  /// Keeps the memory of a sent activation for sent_lifetime_actions turns (stage.h).
  void hold_what_travels(size_t first, size_t turn) {
    if (turn < stage_.sent_lifetime_actions) return;
    const size_t sent = turn - stage_.sent_lifetime_actions;
    if (travels(chunk(sent).above)) b_.plan().instructions[first].holds.push_back(x_[sent]);
  }

  PlanBuilder b_;
  const Sizes& s_;
  const Stage& stage_;
  const int32_t micro_batches_;
  std::vector<SlotId> batches_;
  std::vector<SlotId> x_;  // by turn: the chunk's input, replaced by its output
};

}  // namespace

Plan eval_pipeline_plan(const Sizes& s, const Stage& stage, int32_t micro_batches) {
  return EvalPipeline(s, stage, micro_batches).make();
}

}  // namespace hawser::plan
