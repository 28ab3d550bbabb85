#include "engine/plan/serial.h"

#include <fmt/format.h>

namespace hawser::plan {
namespace {

struct State {
  SlotId weights, master, gradients, head_gradient, moment1, moment2, rope, scalars, partials;
};

/// The same slots in the same order in every plan, so that they share their places.
State add_state(PlanBuilder& b, const Sizes& s) {
  State st;
  st.weights = b.persistent("weights", Category::kWeights, s.weights);
  st.master = b.persistent("master", Category::kOptimizer, s.master);
  st.gradients = b.persistent("gradients", Category::kGradients, s.gradients);
  st.head_gradient = b.persistent("head_gradient", Category::kGradients, s.head_gradient);
  st.moment1 = b.persistent("moment1", Category::kOptimizer, s.moment1);
  st.moment2 = b.persistent("moment2", Category::kOptimizer, s.moment2);
  st.rope = b.persistent("rope_table", Category::kTables, s.rope_table);
  st.scalars = b.persistent("scalars", Category::kTables, s.scalars);
  st.partials = b.persistent("partials", Category::kTables, s.partials);
  return st;
}

/// Embedding and blocks of one micro-batch; returns the last residual. `saved` collects what backward will
/// read.
SlotId add_forward(PlanBuilder& b, const Sizes& s, const State& st, int32_t mb, SlotId batch,
                   std::vector<SlotId>* inputs, std::vector<SlotId>* saved) {
  const auto x_slot = [&](size_t block) {
    return b.transient(fmt::format("x{}.{}", block, mb), Category::kActivations, s.residual);
  };
  SlotId x = x_slot(1);
  b.add(Op::kForward, mb, 0, {batch, st.weights, st.master}, {x}, s.embedding_forward.workspace,
        s.embedding_forward.flops);
  for (size_t layer = 0; layer < s.block_forward.size(); ++layer) {
    const Cost& cost = s.block_forward[layer];
    const SlotId kept =
        b.transient(fmt::format("saved{}.{}", layer + 1, mb), Category::kActivations, cost.saved);
    const SlotId y = x_slot(layer + 2);
    b.add(Op::kForward, mb, static_cast<int32_t>(layer) + 1, {x, batch, st.weights, st.master}, {y, kept},
          cost.workspace, cost.flops);
    inputs->push_back(x);
    saved->push_back(kept);
    x = y;
  }
  return x;
}

void add_micro_batch(PlanBuilder& b, const Sizes& s, const State& st, int32_t mb, SlotId batch) {
  std::vector<SlotId> inputs, saved;
  const SlotId x = add_forward(b, s, st, mb, batch, &inputs, &saved);
  const auto head = static_cast<int32_t>(s.block_forward.size()) + 1;
  const SlotId losses = b.transient(fmt::format("losses.{}", mb), Category::kStaging, s.losses);
  const SlotId dx = b.transient(fmt::format("dx.{}", mb), Category::kActivations, s.residual);
  b.add(Op::kLoss, mb, head, {x, batch, st.scalars, st.weights, st.master},
        {losses, dx, st.gradients, st.head_gradient}, s.loss.workspace, s.loss.flops);
  for (size_t layer = s.block_backward.size(); layer-- > 0;) {
    const Cost& cost = s.block_backward[layer];
    b.add(Op::kBackward, mb, static_cast<int32_t>(layer) + 1,
          {inputs[layer], saved[layer], batch, st.weights, st.master}, {dx, st.gradients}, cost.workspace,
          cost.flops);
  }
  b.add(Op::kBackward, mb, 0, {batch}, {dx, st.gradients}, s.embedding_backward.workspace,
        s.embedding_backward.flops);
}

SlotId batch_slot(PlanBuilder& b, const Sizes& s, int32_t mb) {
  return b.transient(fmt::format("batch.{}", mb), Category::kStaging, s.batch);
}

/// One micro-batch forward and a head that keeps `losses` bytes of result.
Plan forward_plan(const char* name, const Sizes& s, Op head, const Cost& cost, int64_t losses) {
  PlanBuilder b(name);
  const State st = add_state(b, s);
  const SlotId batch = batch_slot(b, s, 0);
  b.add(Op::kLoadMicroBatch, 0, -1, {}, {batch});
  std::vector<SlotId> inputs, saved;
  const SlotId x = add_forward(b, s, st, 0, batch, &inputs, &saved);
  const SlotId result = b.transient("losses.0", Category::kStaging, losses);
  b.add(head, 0, static_cast<int32_t>(s.block_forward.size()) + 1, {x, batch, st.weights, st.master},
        {result}, cost.workspace, cost.flops);
  b.commit_begins();
  return b.finish();
}

}  // namespace

Plan train_plan(const Sizes& s, int32_t micro_batches) {
  PlanBuilder b("train");
  const State st = add_state(b, s);
  std::vector<SlotId> batches;
  for (int32_t mb = 0; mb < micro_batches; ++mb) {
    batches.push_back(batch_slot(b, s, mb));
    b.add(Op::kLoadMicroBatch, mb, -1, {}, {batches.back()});
  }
  b.add(Op::kCountTokens, -1, -1, batches, {st.scalars});
  for (int32_t mb = 0; mb < micro_batches; ++mb)
    add_micro_batch(b, s, st, mb, batches[static_cast<size_t>(mb)]);
  if (st.head_gradient >= 0) b.add(Op::kReduceGrad, -1, 0, {st.head_gradient}, {st.gradients});
  b.add(Op::kGradNorm, -1, -1, {st.gradients}, {st.partials});
  b.commit_begins();
  b.add(Op::kOptimizerStep, -1, -1, {st.gradients, st.scalars},
        {st.weights, st.master, st.moment1, st.moment2});
  return b.finish();
}

Plan eval_plan(const Sizes& s) { return forward_plan("eval", s, Op::kEvalLoss, s.loss_eval, s.losses); }

Plan logits_plan(const Sizes& s) { return forward_plan("logits", s, Op::kLogits, s.logits, 0); }

Plan generate_plan(const Sizes& s) {
  PlanBuilder b("generate");
  const State st = add_state(b, s);
  const SlotId batch = b.transient("batch.0", Category::kStaging, s.generate_batch);
  const SlotId x = b.transient("x", Category::kActivations, s.generate_residual);
  // The caches keep their contents from call to call: all of them live over the whole plan.
  std::vector<SlotId> caches, all{batch, x};
  for (size_t layer = 0; layer < s.block_forward.size(); ++layer) {
    caches.push_back(b.transient(fmt::format("kv{}", layer + 1), Category::kActivations, s.kv_cache));
    all.push_back(caches.back());
  }
  b.add(Op::kLoadMicroBatch, 0, -1, {}, all);
  b.add(Op::kForward, 0, 0, {batch, st.weights, st.master}, {x}, s.generate_workspace);
  for (size_t layer = 0; layer < caches.size(); ++layer)
    b.add(Op::kForward, 0, static_cast<int32_t>(layer) + 1, {x, batch, st.weights, st.master, caches[layer]},
          {x, caches[layer]}, s.generate_workspace);
  std::vector<SlotId> last{x, st.weights, st.master, batch};
  last.insert(last.end(), caches.begin(), caches.end());
  b.add(Op::kLogits, 0, static_cast<int32_t>(caches.size()) + 1, last, {}, s.generate_workspace);
  b.commit_begins();
  return b.finish();
}

}  // namespace hawser::plan
