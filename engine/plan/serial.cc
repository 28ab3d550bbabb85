#include "engine/plan/serial.h"

#include <fmt/format.h>

#include <algorithm>

namespace hawser::plan {
namespace {

using enum Operand;

/// Builds one plan: the state that all plans share, then instructions.
class Schedule {
 public:
  Schedule(const char* name, const Sizes& sizes) : s_(sizes) {
    plan_.name = name;
    add_state();
  }

  Plan take() { return std::move(plan_); }
  void commit_begins() { plan_.commit = plan_.instructions.size(); }

  SlotId transient(std::string name, Category category, int64_t bytes) {
    return plan_.add_slot({std::move(name), category, bytes});
  }
  struct Named {
    Operand operand;
    SlotId slot;  // -1 if absent
  };
  Instruction& add(Op op, int32_t mb, int32_t block, const std::vector<Named>& reads,
                   const std::vector<Named>& writes, const Cost& cost = {}) {
    Instruction n;
    n.op = op, n.micro_batch = mb, n.block = block;
    for (const Named& r : reads) n.read(r.operand, r.slot);
    for (const Named& w : writes) n.write(w.operand, w.slot);
    n.flops = cost.flops;
    n.exchanges = cost.exchanges;
    n.sent_bytes = sent_bytes(cost.exchanges);
    return plan_.add(std::move(n), cost.workspace);
  }

  SlotId load(int32_t mb, int64_t bytes) {
    const SlotId batch = transient(fmt::format("batch.{}", mb), Category::kStaging, bytes);
    add(Op::kLoadMicroBatch, mb, -1, {}, {{kBatch, batch}});
    return batch;
  }
  /// Emits embedding and blocks of one micro-batch; returns the last residual. Keeps what backward will read.
  SlotId forward(int32_t mb, SlotId batch);
  /// Emits head, loss and the whole backward. Gradients go to `gradients` (by block).
  void loss_and_backward(int32_t mb, SlotId batch, SlotId x, const std::vector<SlotId>& gradients,
                         bool accumulate);
  void evaluate(Op head, const Cost& cost, int64_t result);
  void train(int32_t micro_batches, Accumulation accumulation);
  void generate();

 private:
  void add_state();
  SlotId state(const char* name, Category category, int64_t bytes, Role role, int32_t block) {
    std::string full = block < 0 ? std::string(name) : fmt::format("{}.{}", name, block);
    return plan_.add_slot({std::move(full), category, bytes, true, role, block});
  }
  SlotId weights(int32_t block) const { return weights_[static_cast<size_t>(block)]; }
  /// What the head reads: x, the micro-batch, its weights, and the embedding's if it shares them.
  std::vector<Named> head_reads(SlotId x, SlotId batch) const {
    return {
        {kX, x}, {kBatch, batch}, {kWeights, weights(s_.head())}, {kWeights, s_.tied_head ? weights(0) : -1}};
  }
  std::vector<SlotId> fresh_gradients(int32_t mb);
  bool rounds_gradients() const {
    return std::any_of(s_.state.begin(), s_.state.end(),
                       [](const BlockState& st) { return st.gradient_window > 0; });
  }
  SlotId window(int32_t mb, int32_t block, const char* name = "gradient_window");
  void round(Op op, int32_t mb, int32_t block, SlotId from, SlotId to, bool accumulate);
  void join(int32_t mb, SlotId gradients);
  void add_gradients(const std::vector<SlotId>& to, const std::vector<SlotId>& from);
  void tree(int32_t micro_batches, const std::vector<SlotId>& batches);
  void update();

  const Sizes& s_;
  Plan plan_;
  std::vector<SlotId> weights_, gradients_;
  SlotId lookup_gradient_ = -1, rope_ = -1, scalars_ = -1, norm_ = -1;
  std::vector<SlotId> inputs_, saved_;  // of the last forward, indexed by block from 1
};

/// Every plan adds the same slots in the same order, so that all plans share their places.
void Schedule::add_state() {
  const auto blocks = static_cast<int32_t>(s_.state.size());
  const auto each = [&](auto&& add) {
    for (int32_t b = 0; b < blocks; ++b) add(b, s_.state[static_cast<size_t>(b)]);
  };
  each([&](int32_t b, const BlockState& st) {
    const Role role = st.unsharded > 0 ? Role::kWeightShards : Role::kWeights;
    weights_.push_back(state("weights", Category::kWeights, st.weights, role, b));
  });
  each([&](int32_t b, const BlockState& st) {
    state("master", Category::kOptimizer, st.master, Role::kMaster, b);
  });
  each([&](int32_t b, const BlockState& st) {
    gradients_.push_back(state("gradients", Category::kGradients, st.gradients, Role::kGradients, b));
  });
  lookup_gradient_ =
      state("lookup_gradient", Category::kGradients, s_.lookup_gradient, Role::kLookupGradient, -1);
  each([&](int32_t b, const BlockState& st) {
    const Category category = st.gradients > 0 ? Category::kBuckets : Category::kGradients;
    state("gradient_shards", category, st.gradient_shards, Role::kGradientShards, b);
  });
  each([&](int32_t b, const BlockState& st) {
    state("moment1", Category::kOptimizer, st.moment1, Role::kMoment1, b);
  });
  each([&](int32_t b, const BlockState& st) {
    state("moment2", Category::kOptimizer, st.moment2, Role::kMoment2, b);
  });
  rope_ = state("rope_table", Category::kTables, s_.rope_table, Role::kOther, -1);
  scalars_ = state("scalars", Category::kTables, s_.scalars, Role::kOther, -1);
  norm_ = state("norm", Category::kTables, s_.norm, Role::kOther, -1);
}

SlotId Schedule::forward(int32_t mb, SlotId batch) {
  const auto x_slot = [&](size_t block) {
    return transient(fmt::format("x{}.{}", block, mb), Category::kActivations, s_.residual);
  };
  inputs_.assign(1, -1);
  saved_.assign(1, -1);
  SlotId x = x_slot(1);
  add(Op::kForward, mb, 0, {{kBatch, batch}, {kWeights, weights(0)}}, {{kY, x}}, s_.embedding_forward);
  for (size_t layer = 0; layer < s_.block_forward.size(); ++layer) {
    const Cost& cost = s_.block_forward[layer];
    const auto block = static_cast<int32_t>(layer) + 1;
    const SlotId kept = transient(fmt::format("saved{}.{}", block, mb), Category::kActivations, cost.saved);
    const SlotId y = x_slot(layer + 2);
    add(Op::kForward, mb, block, {{kX, x}, {kBatch, batch}, {kWeights, weights(block)}},
        {{kY, y}, {kSaved, kept}}, cost);
    inputs_.push_back(x);
    saved_.push_back(kept);
    x = y;
  }
  return x;
}

void Schedule::loss_and_backward(int32_t mb, SlotId batch, SlotId x, const std::vector<SlotId>& gradients,
                                 bool accumulate) {
  const SlotId losses = transient(fmt::format("losses.{}", mb), Category::kStaging, s_.losses);
  const SlotId dx = transient(fmt::format("dx.{}", mb), Category::kActivations, s_.residual);
  std::vector<Named> reads = head_reads(x, batch);
  reads.insert(reads.begin() + 2, {kScalars, scalars_});
  const bool rounds = rounds_gradients(), adds = accumulate && !rounds;
  const Operand result = rounds ? kWindow : kGradients;
  const auto written = [&](size_t block) {
    return rounds ? window(mb, static_cast<int32_t>(block)) : gradients[block];
  };
  // The head's part of the gradient of a tied table comes first.
  const bool tied = lookup_gradient_ >= 0 || s_.one_tied_gradient;
  const SlotId head_made = written(gradients.size() - 1);
  const SlotId shared = !tied ? -1 : rounds ? window(mb, 0, "head_gradient_window") : gradients[0];
  add(Op::kLoss, mb, s_.head(), reads, {{kLosses, losses}, {kDx, dx}, {result, head_made}, {result, shared}},
      s_.loss)
      .accumulate = adds;
  if (rounds) round(Op::kRoundGrad, mb, s_.head(), head_made, gradients.back(), accumulate);
  if (rounds) round(Op::kRoundHeadGrad, mb, 0, shared, gradients[0], accumulate);
  for (int32_t block = s_.head() - 1; block >= std::max(1, s_.first_trainable); --block) {
    const auto i = static_cast<size_t>(block);
    const SlotId made = written(i);
    add(Op::kBackward, mb, block,
        {{kX, inputs_[i]}, {kSaved, saved_[i]}, {kBatch, batch}, {kWeights, weights(block)}},
        {{kDx, dx}, {result, made}}, s_.block_backward[i - 1])
        .accumulate = adds;
    if (rounds) round(Op::kRoundGrad, mb, block, made, gradients[i], accumulate);
  }
  if (s_.first_trainable > 0) return;
  const SlotId made = written(0);
  add(Op::kBackward, mb, 0, {{kBatch, batch}},
      {{kDx, dx}, {result, made}, {kLookupGradient, lookup_gradient_}}, s_.embedding_backward)
      .accumulate = adds;
  if (rounds) round(Op::kRoundGrad, mb, 0, made, gradients[0], accumulate);
}

/// Where a backward pass writes f32 gradients that are stored narrower; -1 for a block without gradients.
SlotId Schedule::window(int32_t mb, int32_t block, const char* name) {
  return plan_.add_slot({fmt::format("{}.{}.{}", name, block, mb), Category::kBuckets,
                         s_.state[static_cast<size_t>(block)].gradient_window, false, Role::kGradientWindow,
                         block});
}

void Schedule::round(Op op, int32_t mb, int32_t block, SlotId from, SlotId to, bool accumulate) {
  if (from >= 0) add(op, mb, block, {{kWindow, from}}, {{kGradients, to}}).accumulate = accumulate;
}

void Schedule::train(int32_t micro_batches, Accumulation accumulation) {
  std::vector<SlotId> batches;
  for (int32_t mb = 0; mb < micro_batches; ++mb) batches.push_back(load(mb, s_.batch));
  std::vector<Named> counted;
  for (const SlotId batch : batches) counted.push_back({kBatch, batch});
  add(Op::kCountTokens, -1, -1, counted, {{kScalars, scalars_}});
  if (accumulation == Accumulation::kTree) {
    tree(micro_batches, batches);
  } else {
    const bool fresh = accumulation == Accumulation::kFresh;
    for (int32_t mb = 0; mb < micro_batches; ++mb) {
      const SlotId batch = batches[static_cast<size_t>(mb)];
      loss_and_backward(mb, batch, forward(mb, batch), gradients_, !fresh && mb > 0);
      if (lookup_gradient_ >= 0 && (fresh || mb + 1 == micro_batches)) join(mb, gradients_[0]);
    }
  }
  update();
}

std::vector<SlotId> Schedule::fresh_gradients(int32_t mb) {
  std::vector<SlotId> slots;
  for (size_t b = 0; b < s_.state.size(); ++b)
    slots.push_back(
        plan_.add_slot({fmt::format("gradients.{}.{}", b, mb), Category::kGradients,
                        s_.state[b].gradient_bucket, false, Role::kGradients, static_cast<int32_t>(b)}));
  return slots;
}

void Schedule::join(int32_t mb, SlotId gradients) {
  add(Op::kJoinHeadGrad, mb, 0, {{kLookupGradient, lookup_gradient_}}, {{kGradients, gradients}}).accumulate =
      true;
}

void Schedule::add_gradients(const std::vector<SlotId>& to, const std::vector<SlotId>& from) {
  for (size_t b = to.size(); b-- > 0;)
    if (to[b] >= 0)
      add(Op::kAddGrad, -1, static_cast<int32_t>(b), {{kAddend, from[b]}}, {{kGradients, to[b]}}).accumulate =
          true;
}

/// A binary counter of finished subtrees. The final sum ends up in the gradients of micro-batch 0.
void Schedule::tree(int32_t micro_batches, const std::vector<SlotId>& batches) {
  struct Subtree {
    std::vector<SlotId> gradients;
    int32_t micro_batches;
  };
  std::vector<Subtree> stack;
  for (int32_t mb = 0; mb < micro_batches; ++mb) {
    const SlotId batch = batches[static_cast<size_t>(mb)];
    stack.push_back({mb == 0 ? gradients_ : fresh_gradients(mb), 1});
    loss_and_backward(mb, batch, forward(mb, batch), stack.back().gradients, false);
    if (lookup_gradient_ >= 0) join(mb, stack.back().gradients[0]);
    while (stack.size() > 1 && stack[stack.size() - 2].micro_batches == stack.back().micro_batches) {
      add_gradients(stack[stack.size() - 2].gradients, stack.back().gradients);
      stack.pop_back();
      stack.back().micro_batches *= 2;
    }
  }
}

/// Norms from the head down, in the order in which gradients become final; updates from the embedding up, in
/// the order in which the next step needs the weights.
void Schedule::update() {
  for (int32_t b = s_.head(); b >= 0; --b)
    if (gradients_[static_cast<size_t>(b)] >= 0 || s_.state[static_cast<size_t>(b)].gradient_bucket > 0)
      add(Op::kGradNorm, -1, b, {{kGradients, gradients_[static_cast<size_t>(b)]}}, {{kNorm, norm_}},
          {s_.norm_workspace});
  add(Op::kGradNorm, -1, -1, {{kNorm, norm_}}, {{kNorm, norm_}});
  commit_begins();
  for (int32_t b = 0; b <= s_.head(); ++b) {
    const auto i = static_cast<size_t>(b);
    if (s_.state[i].gradient_bucket == 0) continue;
    add(Op::kOptimizerStep, -1, b, {{kGradients, gradients_[i]}, {kScalars, scalars_}},
        {{kWeights, weights(b)},
         {kMaster, find_state(plan_, Role::kMaster, b)},
         {kMoment1, find_state(plan_, Role::kMoment1, b)},
         {kMoment2, find_state(plan_, Role::kMoment2, b)}});
  }
}

void Schedule::evaluate(Op head, const Cost& cost, int64_t result_bytes) {
  const SlotId batch = load(0, s_.batch);
  const SlotId x = forward(0, batch);
  const SlotId losses = transient("losses.0", Category::kStaging, result_bytes);
  add(head, 0, s_.head(), head_reads(x, batch), {{kLosses, losses}}, cost);
  commit_begins();
}

void Schedule::generate() {
  const SlotId batch = transient("batch.0", Category::kStaging, s_.generate_batch);
  const SlotId x = transient("x", Category::kActivations, s_.generate_residual);
  // The caches keep their contents between calls, so all of them live over the whole plan.
  std::vector<SlotId> caches;
  std::vector<Named> all{{kBatch, batch}, {kX, x}};
  for (size_t layer = 0; layer < s_.block_forward.size(); ++layer) {
    caches.push_back(transient(fmt::format("kv{}", layer + 1), Category::kActivations, s_.kv_cache));
    all.push_back({kCache, caches.back()});
  }
  add(Op::kLoadMicroBatch, 0, -1, {}, all);
  add(Op::kForward, 0, 0, {{kBatch, batch}, {kWeights, weights(0)}}, {{kY, x}}, {s_.generate_workspace});
  for (size_t layer = 0; layer < caches.size(); ++layer) {
    const auto block = static_cast<int32_t>(layer) + 1;
    add(Op::kForward, 0, block,
        {{kX, x}, {kBatch, batch}, {kWeights, weights(block)}, {kCache, caches[layer]}},
        {{kY, x}, {kCache, caches[layer]}}, {s_.generate_workspace});
  }
  std::vector<Named> last = head_reads(x, batch);
  for (const SlotId cache : caches) last.push_back({kCache, cache});
  add(Op::kLogits, 0, s_.head(), last, {}, {s_.generate_workspace});
  commit_begins();
}

}  // namespace

Plan train_plan(const Sizes& s, int32_t micro_batches, Accumulation accumulation) {
  Schedule schedule("train", s);
  schedule.train(micro_batches, accumulation);
  return schedule.take();
}

Plan eval_plan(const Sizes& s) {
  Schedule schedule("eval", s);
  schedule.evaluate(Op::kEvalLoss, s.loss_eval, s.losses);
  return schedule.take();
}

Plan logits_plan(const Sizes& s) {
  Schedule schedule("logits", s);
  schedule.evaluate(Op::kLogits, s.logits, 0);
  return schedule.take();
}

Plan generate_plan(const Sizes& s) {
  Schedule schedule("generate", s);
  schedule.generate();
  return schedule.take();
}

}  // namespace hawser::plan
