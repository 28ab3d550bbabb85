// Dry run: measures costs by running the modules with kernels that compute nothing, on a stream that counts,
// in regions without limit. The plan reserves the memory that they take, so there is no second model of
// memory.
#include <algorithm>

#include "engine/nn/model.h"
#include "engine/nn/work_counter.h"

namespace hawser::nn {
namespace {

/// A context with dry kernels and fake addresses. Each call is measured separately.
class DryRun {
 public:
  DryRun(const Model& model, const kernels::KernelTable& kernels, int32_t workers, WeightTypes types,
         int64_t batch, int64_t seq, bool training, const Exchange& exchange, const ColumnExchange& columns,
         const ExpertExchange& experts, ExchangeNotes* notes)
      : counter_(kernels, workers, notes ? notes : &unread_), notes_(notes ? notes : &unread_) {
    for (const ParameterGroup& g : model.table().groups())
      groups_.push_back(
          {static_cast<const char*>(fake()), g.trainable ? fake_floats() : nullptr, fake_floats()});
    ctx_.kernels = &counter_.table();
    ctx_.stream = &counter_.stream();
    ctx_.workspace = &workspace_;
    ctx_.exchange = &exchange;
    ctx_.columns = &columns;
    ctx_.experts = &experts;
    ctx_.batch = batch;
    ctx_.seq = seq;
    ctx_.type = types.product;
    ctx_.lookup_type = types.lookup;
    ctx_.residual_type = types.residual;
    ctx_.fp8 = types.fp8;
    ctx_.training = training;
    ctx_.groups = groups_.data();
    ctx_.tokens_BT = ctx_.targets_BT = ctx_.positions_BT = static_cast<const int32_t*>(fake());
    if (model.config().has_score()) ctx_.weights_BT = fake_floats();
    const auto* const ints = static_cast<const int32_t*>(fake());
    ctx_.ahead = {model.config().ahead, ints, ints, nullptr, fake_floats(), fake_floats(), fake_floats()};
  }

  static void* fake() { return WorkCounter::fake(); }
  static float* fake_floats() { return WorkCounter::fake_floats(); }
  const Context& context() const { return ctx_; }
  void save(const RecomputeSet& remakes, const CompressSet& compress) {
    ctx_.remakes = remakes, ctx_.compress = compress;
  }
  /// Sets the teacher of losses that have a backward.
  void set_teacher(kernels::Teacher teacher) {
    teacher.ids = static_cast<const int32_t*>(fake()), teacher.logprobs = fake_floats();
    ctx_.teacher = teacher;
  }
  /// Blocks, except the embedding and the head, write gradients of this type.
  void write_gradients(const Model& model, DType type) {
    for (size_t g = 0; g < groups_.size(); ++g)
      if (const int64_t block = model.table().groups()[g].block; block > 0 && block <= model.config().layers)
        groups_[g].gradient_type = type;
  }
  /// Forwards of a step count the load of experts.
  void tally(bool on) { ctx_.tallies = on ? static_cast<int64_t*>(fake()) : nullptr; }

  /// As measure, for a call that writes gradients: counts the work of adding to them, too.
  template <typename Call>
  CallCost measure_backward(Call call) {
    ctx_.accumulate = true;
    WorkList adding = measure(call).work.calls;
    ctx_.accumulate = false;
    CallCost cost = measure(call);
    cost.work.adding = std::move(adding);
    return cost;
  }

  template <typename Call>
  CallCost measure(Call call) {
    workspace_ = Region::measuring();
    const Region region = Region::measuring();
    BlockRegions r{region, region, region, region, region, true};
    counter_.clear();
    *notes_ = {};
    call(ctx_, r);
    CallCost cost;
    cost.workspace = workspace_.high();
    cost.saved = r.saved.high() + r.kept.high(), cost.kept = r.kept.high();
    cost.flops = counter_.flops(), cost.work.calls = counter_.calls();
    cost.exchanges = notes_->list;
    cost.made = r.made.high();
    cost.remade = r.remade.high() + r.remade_kept.high(), cost.remade_kept = r.remade_kept.high();
    return cost;
  }

 private:
  ExchangeNotes unread_;
  WorkCounter counter_;
  ExchangeNotes* const notes_;
  std::vector<GroupPointers> groups_;
  Region workspace_;
  Context ctx_;
};

/// Measures forwards and losses that compute the last sum of the block below, or forwards that leave theirs.
void measure_deferring(DryRun* dry, const Model& model, ModelCosts* costs) {
  float* const f = DryRun::fake_floats();
  const int64_t layers = model.config().layers;
  const auto input = [&](const Context& c, int64_t block) {  // of a block or the head
    return block > 0 ? StreamInput(model.block(block - 1).last_sum(c, f, f, f)) : StreamInput(f);
  };
  dry->tally(true);
  for (size_t form = 0; form < costs->block_forward_deferring.size(); ++form)
    for (int64_t layer = 0; layer < layers; ++layer)
      costs->block_forward_deferring[form].push_back(dry->measure([&](const Context& c, BlockRegions& r) {
        const bool sums = form != 1, leaves = form != 0;
        model.block(layer).forward(c, r, f, f, sums ? input(c, layer) : f, leaves ? f : nullptr);
      }));
  costs->loss_of_sum = dry->measure_backward(
      [&](const Context& c, BlockRegions&) { model.head().forward_backward(c, f, f, input(c, layers), f); });
  dry->tally(false);
  for (int64_t layer = 0; layer < layers; ++layer)
    costs->branch = std::max(costs->branch, model.block(layer).branch_bytes(dry->context()));
  costs->loss_eval_of_sum =
      dry->measure([&](const Context& c, BlockRegions&) { model.head().forward(c, f, input(c, layers)); });
}

}  // namespace

ModelCosts measure_costs(const Model& model, const kernels::KernelTable& kernels, int32_t workers,
                         WeightTypes types, int64_t batch, int64_t seq, bool training, bool chunk_logits,
                         const Exchange& exchange, const ColumnExchange& columns, ExchangeNotes* notes,
                         const BackwardForm& form, const ExpertExchange& experts) {
  DryRun dry(model, kernels, workers, types, batch, seq, training, exchange, columns, experts, notes);
  dry.save(form.remakes, form.compress);
  if (form.teacher.top > 0) dry.set_teacher(form.teacher);
  if (form.rounds_in_kernels) dry.write_gradients(model, types.lookup);
  float* const f = DryRun::fake_floats();
  const bool rounded = Block::reads_rounded(kernels, model.config(), types.product);
  const StreamGradient dx(f, rounded ? DryRun::fake() : nullptr);
  const Head& head = model.head();
  ModelCosts costs;
  costs.embedding_forward =
      dry.measure([&](const Context& c, BlockRegions&) { model.embedding().forward(c, f); });
  const bool joins = form.lookups.rows() > 0;
  const LookupGradient lookups =
      joins ? LookupGradient(DryRun::fake(), DryRun::fake(), form.lookups) : LookupGradient();
  costs.embedding_backward = dry.measure_backward([&](const Context& c, BlockRegions&) {
    model.embedding().backward(c, f, joins ? &lookups : nullptr, 0);
  });
  if (joins)
    costs.join = dry.measure([&](const Context& c, BlockRegions&) { model.embedding().join(c, lookups, 0); });
  for (int64_t layer = 0; layer < model.config().layers; ++layer) {
    const Block& block = model.block(layer);
    const auto measure = [&](std::vector<CallCost>* list, auto call) {
      list->push_back(dry.measure([&](const Context& c, BlockRegions& r) { call(c, r); }));
    };
    const auto measure_backward = [&](std::vector<CallCost>* list, auto call) {
      list->push_back(dry.measure_backward([&](const Context& c, BlockRegions& r) { call(c, r); }));
    };
    dry.tally(training);
    measure(&costs.block_forward, [&](auto& c, auto& r) { block.forward(c, r, f, f, f); });
    dry.tally(false);
    measure_backward(&costs.block_backward, [&](auto& c, auto& r) { block.backward(c, r, f, dx, f); });
    if (form.remakes.any()) {
      measure(&costs.block_recompute, [&](auto& c, auto& r) { block.recompute(c, r, f, nullptr, f); });
      measure(&costs.block_repeat, [&](auto& c, auto& r) { block.recompute(c, r, f, f, f); });
    }
    if (!form.halves) continue;
    measure_backward(&costs.block_backward_input,
                     [&](auto& c, auto& r) { block.backward_input(c, r, f, dx, f); });
    measure_backward(&costs.block_backward_weight, [&](auto& c, auto& r) { block.backward_weight(c, r); });
  }
  if (rounded)
    costs.round_dx =
        dry.measure([&](const Context& c, BlockRegions&) { Block::round(c, dx, model.config().width); });
  dry.tally(training);
  costs.loss =
      dry.measure_backward([&](const Context& c, BlockRegions&) { head.forward_backward(c, f, f, f, f); });
  dry.tally(false);
  costs.loss_eval = dry.measure([&](const Context& c, BlockRegions&) { head.forward(c, f, f); });
  if (training && Block::defers_sums(kernels, model.config())) measure_deferring(&dry, model, &costs);
  costs.logits = dry.measure([&](const Context& c, BlockRegions&) {
    if (chunk_logits) head.take_logits(c, c.rows());
    if (columns.own().ranks > 1) head.take_logits(c, c.rows());  // for the columns of other ranks
    head.logits(c, f, head.whole_rows(c, f), c.rows());
    for (int64_t row = 0; columns.own().ranks > 1 && row < c.rows(); row += head.chunk_rows(c))
      columns.broadcast(f, DType::kF32,
                        std::min(head.chunk_rows(c), c.rows() - row) * model.config().outputs(), 0);
  });
  return costs;
}

int64_t measure_cached_workspace(const Model& model, const kernels::KernelTable& kernels, int32_t workers,
                                 WeightTypes types, int64_t rows, int64_t capacity, bool chunk_logits,
                                 const Exchange& exchange, const ExpertExchange& experts) {
  DryRun dry(model, kernels, workers, types, 1, rows, false, exchange, kAllColumns, experts, nullptr);
  float* const f = DryRun::fake_floats();
  const KvCache cache{DryRun::fake(), 0, capacity - rows};
  const CallCost logits = dry.measure([&](const Context& c, BlockRegions&) {
    if (chunk_logits) model.head().take_logits(c, 1);
    model.head().logits(c, f, f, 1);
  });
  int64_t bytes = logits.workspace;
  for (int64_t layer = 0; layer < model.config().layers; ++layer) {
    const Block& block = model.block(layer);
    bytes = std::max(
        bytes, dry.measure([&](const Context& c, BlockRegions&) { block.forward_cached(c, cache, f, f); })
                   .workspace);
  }
  return bytes;
}

}  // namespace hawser::nn
