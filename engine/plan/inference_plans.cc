// Inference plans: schedules that do not train, for evaluation, logits, generation, and for publishing
// weights.
#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/plan_builder.h"

namespace hawser::plan {
namespace {

using enum Operand;
using Named = PlanBuilder::Named;

/// Passes x from chunk to chunk. forward(chunk, x) adds the blocks of a chunk, without the head, and returns
/// their output; x is -1 for the first chunk.
template <typename Forward>
SlotId through_chunks(PlanBuilder* b, int64_t bytes, SlotId own_x, Forward forward) {
  SlotId x = -1;
  for (const ModelChunk& chunk : b->stage().chunks) {
    if (travels(chunk.below)) {
      x = own_x >= 0 ? own_x : b->transient(fmt::format("x{}.0", chunk.begin), Category::kActivations, bytes);
      b->receive(Op::kRecvF, chunk.below, 0, x);
    }
    x = forward(chunk, x);
    if (travels(chunk.above)) b->send(Op::kSendF, chunk.above, 0, x, bytes);
  }
  return x;
}

Plan evaluation(const char* name, const Sizes& s, const Stage& stage, Op head, const Cost& cost,
                int64_t result) {
  PlanBuilder b(name, s, stage);
  const SlotId batch = b.load(0, s.batch);
  const SlotId last = through_chunks(&b, s.residual, -1, [&](const ModelChunk& chunk, SlotId x) {
    for (int32_t block = chunk.begin; block < std::min(chunk.end, s.head()); ++block)
      x = b.forward(0, block, {x}, batch).y.x;
    return x;
  });
  if (stage.has(s.head())) {
    const SlotId losses = b.transient("losses.0", Category::kStaging, result);
    b.add(head, 0, s.head(), b.head_reads({last}, batch), {{kLosses, losses}}, cost);
  }
  b.commit_begins();
  return b.take();
}

}  // namespace

Plan eval_plan(const Sizes& s, const Stage& stage) {
  return evaluation("eval", s, stage, Op::kEvalLoss, s.loss_eval, s.losses);
}

Plan logits_plan(const Sizes& s, const Stage& stage) {
  return evaluation("logits", s, stage, Op::kLogits, s.logits, 0);
}

Plan generate_plan(const Sizes& s, const Stage& stage) {
  PlanBuilder b("generate", s, stage);
  b.plan().no_graphs = NoGraphs::kPositions;
  const SlotId batch = b.transient("batch.0", Category::kStaging, s.generate_batch);
  const SlotId x = b.transient("x", Category::kActivations, s.generate_residual);
  // The caches keep their contents between calls, so every cache is live over the whole plan.
  std::vector<SlotId> caches(s.block_forward.size() + 1, -1);  // by block
  std::vector<Named> all{{kBatch, batch}, {kX, x}};
  for (size_t block = 1; block < caches.size(); ++block) {
    if (!stage.has(static_cast<int32_t>(block))) continue;
    caches[block] = b.transient(fmt::format("kv{}", block), Category::kActivations, s.kv_cache);
    all.push_back({kCache, caches[block]});
  }
  b.add(Op::kLoadMicroBatch, 0, -1, {}, all);
  through_chunks(&b, s.generate_residual, x, [&](const ModelChunk& chunk, SlotId) {
    for (int32_t block = chunk.begin; block < std::min(chunk.end, s.head()); ++block) {
      const SlotId cache = caches[static_cast<size_t>(block)];
      if (block == 0)
        b.add(Op::kForward, 0, 0, {{kBatch, batch}, {kWeights, b.weights(0)}}, {{kY, x}},
              {s.generate_workspace});
      else
        b.add(Op::kForward, 0, block,
              {{kX, x}, {kBatch, batch}, {kWeights, b.weights(block)}, {kCache, cache}},
              {{kY, x}, {kCache, cache}}, {s.generate_workspace});
    }
    return x;
  });
  if (stage.has(s.head())) {
    std::vector<Named> last = b.head_reads({x}, batch);
    for (const SlotId cache : caches) last.push_back({kCache, cache});
    b.add(Op::kLogits, 0, s.head(), last, {}, {s.generate_workspace});
  } else {
    for (const SlotId cache : caches)
      if (cache >= 0) b.plan().instructions.back().holds.push_back(cache);
  }
  b.commit_begins();
  return b.take();
}

Plan publish_plan(const Sizes& s, const Stage& stage) {
  PlanBuilder b("publish", s, stage);
  if (s.published_table > 0 && stage.has(0) != stage.has(s.head())) {
    if (stage.has(0))
      b.pass(Op::kSendTable, Lane::kTable, b.weights(0), s.published_table);
    else
      b.pass(Op::kRecvTable, Lane::kTable, b.weights(0), 0);
  }
  b.commit_begins();
  return b.take();
}

}  // namespace hawser::plan
