#include "engine/assembly/step_sizes.h"

#include <algorithm>

#include "engine/assembly/engine_plans.h"
#include "engine/assembly/precision.h"
#include "engine/execute/executor.h"

namespace hawser::train {
namespace {

plan::Cost cost_of(const nn::CallCost& c) {
  return {c.workspace, c.saved, c.flops, c.work, c.exchanges, c.kept, c.made, c.remade, c.remade_kept};
}

void of_blocks(std::vector<plan::Cost>* to, const std::vector<nn::CallCost>& calls) {
  for (const nn::CallCost& c : calls) to->push_back(cost_of(c));
}

/// Lets blocks leave their last sum to the next norm, if the backend prefers it.
void defer_sums(plan::Sizes* s, const nn::ModelCosts& costs, const nn::RecomputeSet& remakes) {
  s->branch = costs.branch, s->saves_middle = !remakes.rest;
  for (size_t form = 0; form < costs.block_forward_deferring.size(); ++form)
    of_blocks(&s->block_forward_deferring[form], costs.block_forward_deferring[form]);
  s->loss_of_sum = cost_of(costs.loss_of_sum), s->loss_eval_of_sum = cost_of(costs.loss_eval_of_sum);
}

}  // namespace

kernels::Teacher teacher_of(const config::ResolvedConfig& config) {
  const optim::TeacherConfig& t = config.teacher;
  return {nullptr, nullptr, t.top, static_cast<float>(t.temperature), static_cast<float>(t.weight)};
}

MicroBatchForm micro_batch_form(const config::ResolvedConfig& config, const nn::LocalColumns& columns) {
  return {columns, config.teacher.top, config.model.ahead};
}

plan::Sizes step_sizes(const nn::Model& model, const config::ResolvedConfig& config, const Target& target,
                       const parallel::Strategies& strategies, const parallel::BlockExchanges& exchanges,
                       ExchangeNotes* notes) {
  const nn::ModelConfig& m = model.config();
  const parallel::StepForm& form = strategies.form();
  const int64_t batch = config.batch.micro_batch, columns = config.batch.sequence;
  const int64_t seq = form.columns.count(columns);
  const nn::WeightTypes types{compute_type(config), state_type(config), fp8_operands(config),
                              config.cuda.residual};
  const bool chunk_logits =
      !target.in_place || form.shares_rows;  // only one of the ranks gets the caller's memory
  nn::BackwardForm backward = form.backward;
  backward.rounds_in_kernels = rounds_in_kernels(config, strategies);
  backward.teacher = teacher_of(config);
  if (model.trains_shared_table() && types.lookup == DType::kF32)
    backward.lookups = lookup_gradient_sizes(model, config, form);
  const nn::ModelCosts costs =
      nn::measure_costs(model, *target.kernels, target.workers, types, batch, seq, true, chunk_logits,
                        exchanges.exchange(), exchanges.columns(), notes, backward, exchanges.experts());
  plan::Sizes s;
  s.weight_half_reads = m.adapter.on(), s.weighs_targets = config.objective.weighs_targets();
  const int64_t elements = exchanges.exchange().own_rows(batch * seq).room * m.width;
  s.residual = elements * dtype_bytes(types.residual);
  s.dx = elements * dtype_bytes(DType::kF32);
  if (nn::Block::reads_rounded(*target.kernels, m, types.product))
    s.rounded_dx = elements * dtype_bytes(types.product);
  s.batch = MicroBatch::bytes(batch, columns, micro_batch_form(config, form.columns));
  s.losses = batch * seq * (1 + m.ahead) * 4;
  s.embedding_forward = cost_of(costs.embedding_forward);
  s.embedding_backward = cost_of(costs.embedding_backward);
  of_blocks(&s.block_forward, costs.block_forward);
  defer_sums(&s, costs, backward.remakes);
  of_blocks(&s.block_backward, costs.block_backward);
  of_blocks(&s.block_backward_input, costs.block_backward_input);
  of_blocks(&s.block_backward_weight, costs.block_backward_weight);
  of_blocks(&s.block_recompute, costs.block_recompute);
  of_blocks(&s.block_repeat, costs.block_repeat);
  s.loss = cost_of(costs.loss), s.loss_eval = cost_of(costs.loss_eval), s.logits = cost_of(costs.logits);
  s.round_dx = cost_of(costs.round_dx), s.join = costs.join.work.calls;

  const int64_t rows = generate_rows(config);
  s.generate_residual = rows * m.width * dtype_bytes(types.residual);
  s.generate_batch = MicroBatch::bytes(1, rows);
  s.generate_workspace =
      nn::measure_cached_workspace(model, *target.kernels, target.workers, types, rows, columns, chunk_logits,
                                   exchanges.cached_exchange(), exchanges.experts());
  s.kv_cache = columns * nn::cached_bytes(model.local(), compute_type(config));
  strategies.add_sizes(&s, target.in_place);
  return s;
}

}  // namespace hawser::train
