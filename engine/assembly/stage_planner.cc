#include "engine/assembly/stage_planner.h"

#include <algorithm>
#include <utility>

#include "engine/assembly/agreement_bytes.h"
#include "engine/assembly/precision.h"
#include "engine/assembly/state_work.h"
#include "engine/assembly/step_sizes.h"
#include "engine/execute/executor.h"
#include "engine/nn/rope_table.h"
#include "engine/optim/grad_norm.h"
#include "engine/plan/serial.h"

namespace hawser::train {
namespace {

void add_state_sizes(plan::Sizes* s, const nn::Model& model, const config::ResolvedConfig& config,
                     const parallel::StepForm& form, const parallel::ShardLayout& layout, bool inference) {
  for (int32_t b = 0; b < layout.blocks(); ++b) s->state.push_back(layout.block_state(b));
  s->tied_head = model.config().tied_head;
  s->loss_reads_table = model.config().loss_reads_table();
  s->first_trainable = static_cast<int32_t>(model.first_trainable_block());
  s->scales = layout.scales_bytes();
  s->rope_table = nn::rope_table_size(model.config(), config.batch.sequence) * 4;
  s->fp8_maxima = Fp8Maxima::bytes(noted_fp8_operands(config, model.table()), !inference);
  const parallel::GroupLayout& table = layout.group(layout.table().group);
  if (layout.exchanges_table()) s->published_table = layout.table_share() * dtype_bytes(table.type);
  if (inference) return;
  s->one_tied_gradient = model.trains_shared_table() && layout.rounds_gradients();
  if (model.trains_shared_table() && layout.table_travels()) {
    s->head_gradient = layout.table().elements * 4;
    s->table_gradient = table.elements * 4;
    s->sent_table = layout.table_share() * dtype_bytes(table.type);
  }
  if (model.trains_shared_table() && !layout.rounds_gradients() && table.here && !table.copy)
    s->lookup_gradient = nn::LookupGradient::bytes(lookup_gradient_sizes(model, config, form));
  s->scalars = static_cast<int64_t>(sizeof(StepScalars));
  s->norm = sums_bytes(noted_words(model.config()));
  s->norm_workspace = optim::kAddSquaresWorkspaceBytes;
}

/// Sets sent_bytes of the instructions that sum over ranks through the hosts.
void count_agreements(plan::Plan* plan, const AgreementBytes& bytes) {
  for (plan::Instruction& n : plan->instructions)
    if (const int64_t sent = bytes.of(n)) n.sent_bytes = sent;
}

/// Pinned memory for the plan's transfers through the host.
void stage_transfers(const plan::Plan& plan, const parallel::ShardLayout& layout,
                     const parallel::DataParallelStrategy& strategy, PinnedBytes* pinned) {
  pinned->transfers = std::max(pinned->transfers, parallel::transfer_staging_bytes(plan, layout, strategy));
  const parallel::LaneBytes largest = parallel::largest_messages(plan, layout, strategy);
  for (size_t lane = 0; lane < largest.size(); ++lane)
    pinned->messages[lane] = std::max(pinned->messages[lane], largest[lane]);
}

plan::NoGraphs no_graphs(const config::ResolvedConfig& config, const Target& target,
                         const parallel::StepForm& form) {
  using enum plan::NoGraphs;
  if (!target.captures || !config.cuda.graphs) return kOff;
  return form.shares_rows && !target.peers ? kHostExchanges : kNone;
}

/// The costs of each block in plan::Sizes, beside block_forward_deferring.
constexpr std::vector<plan::Cost> plan::Sizes::*kCostsOfBlocks[] = {
    &plan::Sizes::block_forward,         &plan::Sizes::block_backward,  &plan::Sizes::block_backward_input,
    &plan::Sizes::block_backward_weight, &plan::Sizes::block_recompute, &plan::Sizes::block_repeat};

/// Returns the costs of the stage's own blocks, because copying all costs takes long. Other blocks keep only
/// exchanges that overlap: the schedule pairs blocks if any block of the model has such exchanges.
std::vector<plan::Cost> own_costs(const std::vector<plan::Cost>& all, const std::vector<int64_t>& stage_of,
                                  int64_t stage) {
  std::vector<plan::Cost> own(all.size());
  for (size_t l = 0; l < all.size(); ++l)
    if (stage_of[l + 1] == stage)
      own[l] = all[l];
    else if (any_beside(all[l].exchanges))
      own[l].exchanges = all[l].exchanges;
  return own;
}

plan::Sizes own_sizes(const PipelineForm& form, int64_t stage) {
  const plan::Sizes& all = form.sizes;
  const std::vector<int64_t>& stage_of = form.data.stage_of;
  if (stage_of.empty()) return all;  // there is one stage
  plan::Sizes own = form.without_blocks;
  for (const auto costs : kCostsOfBlocks) own.*costs = own_costs(all.*costs, stage_of, stage);
  for (size_t i = 0; i < all.block_forward_deferring.size(); ++i)
    own.block_forward_deferring[i] = own_costs(all.block_forward_deferring[i], stage_of, stage);
  return own;
}

}  // namespace

plan::Sizes without_costs_of_blocks(plan::Sizes sizes) {
  for (const auto costs : kCostsOfBlocks) (sizes.*costs).clear();
  for (std::vector<plan::Cost>& costs : sizes.block_forward_deferring) costs.clear();
  return sizes;
}

StagePlanner::StagePlanner(const PipelineForm& form, int64_t stage)
    : form_(form),
      number_(stage),
      layout_(form.model.table(), layout_options(form.config, form.strategies, form.data,
                                                 form.strategies.first_of_stage(stage), form.inference)),
      sizes_(own_sizes(form, stage)) {
  add_state_sizes(&sizes_, form.model, form.config, form.strategies.form(), layout_, form.inference);
  if (!form.inference)
    add_state_work(&sizes_, form.model, form.config, layout_, *form.target.kernels, form.target.workers);
}

plan::Plan StagePlanner::training(size_t sent_lifetime) const {
  return form_.inference ? plan::Plan() : training_of(form_.config.batch.grad_accum_steps, sent_lifetime);
}

plan::Plan StagePlanner::training_of(int64_t micro_batches, size_t sent_lifetime) const {
  const config::ResolvedConfig& config = form_.config;
  plan::Plan plan =
      plan::train_plan(sizes_, stage_of(micro_batches, sent_lifetime), static_cast<int32_t>(micro_batches),
                       accumulation_of(form_.data, config.batch.grad_accum_steps));
  count_agreements(&plan, AgreementBytes(config, form_.strategies.form().columns.ranks,
                                         noted_fp8_operands(config, form_.model.table()) +
                                             noted_head_scores(config, form_.model.table())));
  form_.strategies.pass(&plan, layout_, form_.data, parallel::Purpose::kTrain);
  return plan;
}

EnginePlans StagePlanner::all(plan::Plan training, size_t sent_lifetime) const {
  const config::ResolvedConfig& config = form_.config;
  const int64_t most = config.batch.grad_accum_steps, eval = form_.strategies.form().eval_micro_batches;
  EnginePlans plans;
  plans.strategy = form_.data;
  plans.stage = stage_of(most, sent_lifetime);
  plans.peers = form_.target.peers;
  plans.train = std::move(training);
  if (!form_.inference)
    for (const int64_t micro_batches : config.batch.all_micro_batches())
      if (micro_batches != most) plans.smaller_train.push_back(training_of(micro_batches, sent_lifetime));
  plans.eval = plan::eval_plan(sizes_, plans.stage);
  if (eval > 1)
    plans.eval_pipeline = plan::eval_pipeline_plan(sizes_, plans.stage, static_cast<int32_t>(eval));
  plans.logits = plan::logits_plan(sizes_, plans.stage);
  plans.generate = plan::generate_plan(sizes_, plans.stage);
  plans.publish = plan::publish_plan(sizes_, plans.stage);
  for (plan::Plan* const plan : {&plans.eval, &plans.eval_pipeline, &plans.logits, &plans.generate})
    if (!plan->slots.empty()) form_.strategies.pass(plan, layout_, form_.data, parallel::Purpose::kAnswer);
  if (!plans.publish.slots.empty())
    form_.strategies.pass(&plans.publish, layout_, form_.data, parallel::Purpose::kPublish);
  finish(&plans);
  add_memory(&plans);
  return plans;
}

/// Completes all plans, and sets each byte count to the largest that any plan needs.
void StagePlanner::finish(EnginePlans* plans) const {
  const Target& target = form_.target;
  const plan::NoGraphs why = no_graphs(form_.config, target, form_.strategies.form());
  for_each_plan(*plans, [&](plan::Plan& plan) {
    if (plan.slots.empty()) return;
    plan::finish(&plan);
    if (why != plan::NoGraphs::kNone) plan.no_graphs = why;
    plans->arena_bytes = std::max(plans->arena_bytes, plan.peak_bytes);
    for (size_t space = 0; space < plan.outside.size(); ++space)
      plans->outside[space] = std::max(plans->outside[space], plan.outside[space]);
    if (target.peers)
      plans->device_transport_bytes =
          std::max(plans->device_transport_bytes, parallel::transfer_device_bytes(plan, layout_, form_.data));
    else if (!target.in_place)
      stage_transfers(plan, layout_, form_.data, &plans->pinned);
  });
}

/// Adds memory outside the arena: for the host's copies of a step, for exchanges inside a block (one at a
/// time), and for the strategies.
void StagePlanner::add_memory(EnginePlans* plans) const {
  const Target& target = form_.target;
  const config::ResolvedConfig& config = form_.config;
  const parallel::StepForm& form = form_.strategies.form();
  const bool tied = sizes_.lookup_gradient > 0;
  if (!target.in_place)
    plans->pinned.step = StepMirror::bytes(
        most_micro_batches(config, form, form_.inference), config.batch.micro_batch, config.batch.sequence,
        micro_batch_form(config, form.columns),
        tied ? nn::LookupGradient::host_bytes(lookup_gradient_sizes(form_.model, config, form)) : 0,
        noted_words(form_.model.config()), sizes_.fp8_maxima);
  const parallel::BesideArena beside =
      form_.strategies.beside_arena(planned_step(*plans, form, target.in_place));
  plans->pinned.offload = beside.offload, plans->pinned.counts = beside.counts;
  plans->snapshot_bytes = beside.snapshots;
  plans->device_message_bytes = beside.device_messages;
  plans->device_transport_bytes += beside.device_messages;
  if (target.peers) {
    plans->device_exchange_bytes = form_.exchanges.most_sum_bytes();
    plans->device_transport_bytes += form_.exchanges.most_sum_bytes();
  } else if (!target.in_place) {
    plans->pinned.exchange = form_.exchanges.most_bytes();
  }
}

}  // namespace hawser::train
