#include "engine/assembly/engine_plans.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "engine/assembly/agreement_bytes.h"
#include "engine/assembly/countable.h"
#include "engine/assembly/precision.h"
#include "engine/assembly/state_work.h"
#include "engine/assembly/step_sizes.h"
#include "engine/base/error.h"
#include "engine/base/on_all_cores.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/execute/executor.h"
#include "engine/nn/rope_table.h"
#include "engine/optim/grad_norm.h"
#include "engine/plan/deadlock.h"
#include "engine/plan/serial.h"
#include "kernels/include/levels.h"

namespace hawser::train {
namespace {

/// `most`: micro-batches of the largest step. All steps reduce gradients in the same way.
plan::Accumulation accumulation_of(const parallel::DataParallelStrategy& strategy, int64_t most) {
  if (strategy.tree && most > 1) return plan::Accumulation::kTree;
  return strategy.reduces_each(most) ? plan::Accumulation::kFresh : plan::Accumulation::kInPlace;
}

void add_state_sizes(plan::Sizes* s, const nn::Model& model, const config::ResolvedConfig& config,
                     const parallel::StepForm& form, const parallel::ShardLayout& layout, bool inference) {
  for (int32_t b = 0; b < layout.blocks(); ++b) s->state.push_back(layout.block_state(b));
  s->tied_head = model.config().tied_head;
  s->first_trainable = static_cast<int32_t>(model.first_trainable_block());
  s->scales = layout.scales_bytes();
  s->rope_table = nn::rope_table_size(model.config(), config.batch.sequence) * 4;
  const parallel::GroupLayout& table = layout.group(layout.table().group);
  if (layout.exchanges_table()) s->published_table = layout.table_share() * dtype_bytes(table.type);
  if (inference) return;
  s->one_tied_gradient = model.trains_tied_head() && layout.rounds_gradients();
  if (model.trains_tied_head() && layout.table_travels()) {
    s->head_gradient = layout.table().elements * 4;
    s->table_gradient = table.elements * 4;
    s->sent_table = layout.table_share() * dtype_bytes(table.type);
  }
  if (model.trains_tied_head() && !layout.rounds_gradients() && table.here && !table.copy)
    s->lookup_gradient = nn::LookupGradient::bytes(lookup_gradient_sizes(model, config, form));
  s->scalars = static_cast<int64_t>(sizeof(StepScalars));
  s->norm = sums_bytes(nn::all_tally_words(model.config()));
  s->norm_workspace = optim::kAddSquaresWorkspaceBytes;
}

parallel::Settings settings_of(const config::ResolvedConfig& config) {
  return {config,
          config.model,
          config.moe,
          config.batch.micro_batch,
          config.batch.grad_accum_steps,
          config.batch.sequence,
          config.checkpoint.reserves_async()};
}

}  // namespace

nn::Model model_of(const config::ResolvedConfig& config, int64_t tile_rows) {
  return parallel::local_model(settings_of(config), config.init.scale_residual,
                               optim::trained_parts(config.optimizer), tile_rows);
}

parallel::Strategies strategies_of(const config::ResolvedConfig& config) {
  return parallel::compose(settings_of(config));
}

int64_t most_micro_batches(const config::ResolvedConfig& config, const parallel::StepForm& form,
                           bool inference) {
  return std::max(form.eval_micro_batches, inference ? 1 : config.batch.grad_accum_steps);
}

int64_t generate_rows(const config::ResolvedConfig& config) {
  return std::min<int64_t>(config.batch.sequence, 64);
}

nn::LookupGradient::Sizes lookup_gradient_sizes(const nn::Model& model, const config::ResolvedConfig& config,
                                                const parallel::StepForm& form) {
  const int64_t micro_batches = config.batch.grad_accum_steps;
  const bool joins_each = accumulation_of(form.data, micro_batches) != plan::Accumulation::kInPlace;
  const int64_t words = model.table().at("embedding.tokens.weight").local_shape[0];
  return {words, model.config().width, config.batch.micro_batch * form.columns.count(config.batch.sequence),
          micro_batches, joins_each};
}

const kernels::KernelTable& choose_kernels(const config::ResolvedConfig& config) {
  if (config.cpu.max_isa.empty()) return kernels::cpu_kernels(kernels::best_cpu_level());
  const int32_t number = kernels::cpu_level_from_name(config.cpu.max_isa);
  if (number < 0) fail(Code::kConfigInvalid, "/cpu/max_isa \"{}\" is not a CPU level", config.cpu.max_isa);
  const auto level = static_cast<kernels::CpuLevel>(number);
  const std::string_view architecture = kernels::cpu_level_architecture(level);
  if (!architecture.empty() && architecture != kernels::cpu_architecture())
    fail(Code::kConfigInvalid,
         "/cpu/max_isa: \"{}\" is for {} processors, but this machine is {}; use {}, or leave it out",
         config.cpu.max_isa, architecture, kernels::cpu_architecture(), kernels::cpu_level_names());
  return kernels::cpu_kernels(std::min(level, kernels::best_cpu_level()));
}

int32_t choose_threads(const config::ResolvedConfig& config, int32_t ranks) {
  const auto wanted = static_cast<int32_t>(config.cpu.threads);
  return std::max(1, (wanted > 0 ? wanted : device::default_threads()) / ranks);
}

bool rounds_in_kernels(const config::ResolvedConfig& config, const parallel::Strategies& strategies) {
  const nn::ModelConfig& m = config.model;
  const nn::BiasConfig& b = m.bias;
  const bool biases = b.q || b.k || b.v || b.o || b.gate || b.up || b.down;
  const bool adds = m.adapter.on() || m.moe.experts > 0 || m.is_latent() || biases ||
                    strategies.form().backward.remakes.rows > 0;
  return state_type(config) != DType::kF32 && config.batch.grad_accum_steps == 1 && !adds;
}

parallel::ShardLayout::Options layout_options(const config::ResolvedConfig& config,
                                              const parallel::Strategies& strategies,
                                              const parallel::DataParallelStrategy& data, int64_t rank,
                                              bool inference) {
  parallel::ShardLayout::Options o;
  o.compute = compute_type(config), o.state = state_type(config);
  o.rank = rank;
  o.training = !inference;
  if (!inference) o.states = optim::states_by_kind(config.optimizer, o.state);
  o.tied_head = config.model.tied_head;
  o.base_elsewhere = base_is_elsewhere(config), o.base_borrowed = config.init.on_engine;
  o.rounds_in_kernels = !inference && rounds_in_kernels(config, strategies);
  strategies.lay_out(&o, data);
  return o;
}

namespace {

/// Adds the bytes of the sums over ranks, through the hosts, to what the plan sends.
void count_agreements(plan::Plan* plan, const AgreementBytes& bytes) {
  for (plan::Instruction& n : plan->instructions)
    if (const int64_t sent = bytes.of(n)) n.sent_bytes = sent;
}

/// More actions than any stage has.
constexpr size_t kMostKept = size_t{1} << 32;

/// Every plan is played through before it is used.
std::string find_deadlock(const std::vector<EnginePlans>& all) {
  if (all.size() == 1) return "";
  std::vector<std::vector<const plan::Plan*>> of_stages;  // by plan
  for (const EnginePlans& plans : all) {
    size_t number = 0;
    for_each_plan(plans, [&](const plan::Plan& plan) {
      if (number == of_stages.size()) of_stages.emplace_back();
      of_stages[number++].push_back(&plan);
    });
  }
  for (const std::vector<const plan::Plan*>& plans : of_stages)
    if (std::string stopped = plan::find_deadlock(plans); !stopped.empty()) return stopped;
  return "";
}

/// Pinned memory for the plan's transfers through the host.
void stage_transfers(const plan::Plan& plan, const parallel::ShardLayout& layout,
                     const parallel::DataParallelStrategy& strategy, PinnedBytes* pinned) {
  pinned->transfers = std::max(pinned->transfers, parallel::transfer_staging_bytes(plan, layout, strategy));
  const parallel::LaneBytes largest = parallel::largest_messages(plan, layout, strategy);
  for (size_t lane = 0; lane < largest.size(); ++lane)
    pinned->messages[lane] = std::max(pinned->messages[lane], largest[lane]);
}

parallel::Purpose purpose_of(const EnginePlans& plans, const plan::Plan& plan) {
  using enum parallel::Purpose;
  return plan.micro_batches > 0 ? kTrain : &plan == &plans.publish ? kPublish : kAnswer;
}

plan::NoGraphs no_graphs(const config::ResolvedConfig& config, const Target& target,
                         const parallel::StepForm& form) {
  using enum plan::NoGraphs;
  if (!target.captures || !config.cuda.graphs) return kOff;
  return form.shares_rows && !target.peers ? kHostExchanges : kNone;
}

/// Returns a stage of the pipeline with the actions of a step of so many micro-batches.
using StageOfSize = std::function<plan::Stage(int64_t micro_batches)>;

EnginePlans plans_of_stage(const nn::Model& model, const config::ResolvedConfig& config, const Target& target,
                           bool inference, const parallel::Strategies& strategies,
                           const parallel::DataParallelStrategy& data, const StageOfSize& stage_of,
                           int64_t rank, plan::Sizes sizes) {
  const int64_t most = config.batch.grad_accum_steps;
  const plan::Stage stage = stage_of(most);
  const parallel::StepForm& form = strategies.form();
  EnginePlans plans;
  plans.strategy = data;
  plans.stage = stage;
  plans.peers = target.peers;
  const parallel::ShardLayout layout(model.table(),
                                     layout_options(config, strategies, data, rank, inference));
  add_state_sizes(&sizes, model, config, form, layout, inference);
  if (!inference) add_state_work(&sizes, model, config, layout, *target.kernels, target.workers);
  for (const int64_t micro_batches : inference ? std::vector<int64_t>() : config.batch.all_micro_batches()) {
    plan::Plan* const plan = micro_batches == most ? &plans.train : &plans.smaller_train.emplace_back();
    *plan = plan::train_plan(sizes, micro_batches == most ? stage : stage_of(micro_batches),
                             static_cast<int32_t>(micro_batches), accumulation_of(data, most));
    count_agreements(plan, AgreementBytes(config, form.columns.ranks,
                                          noted_fp8_operands(config, model.table()) +
                                              noted_head_scores(config, model.table())));
  }
  plans.eval = plan::eval_plan(sizes, stage);
  if (form.eval_micro_batches > 1)
    plans.eval_pipeline =
        plan::eval_pipeline_plan(sizes, stage, static_cast<int32_t>(form.eval_micro_batches));
  plans.logits = plan::logits_plan(sizes, stage);
  plans.generate = plan::generate_plan(sizes, stage);
  plans.publish = plan::publish_plan(sizes, stage);
  for_each_plan(plans, [&](plan::Plan& plan) {
    if (plan.slots.empty()) return;
    strategies.pass(&plan, layout, data, purpose_of(plans, plan));
    plan::finish(&plan);
    if (const plan::NoGraphs why = no_graphs(config, target, form); why != plan::NoGraphs::kNone)
      plan.no_graphs = why;
    plans.arena_bytes = std::max(plans.arena_bytes, plan.peak_bytes);
    for (size_t space = 0; space < plan.outside.size(); ++space)
      plans.outside[space] = std::max(plans.outside[space], plan.outside[space]);
    if (target.peers)
      plans.device_transport_bytes =
          std::max(plans.device_transport_bytes, parallel::transfer_device_bytes(plan, layout, data));
    else if (!target.in_place)
      stage_transfers(plan, layout, data, &plans.pinned);
  });
  const bool tied = sizes.lookup_gradient > 0;
  if (!target.in_place)
    plans.pinned.step = StepMirror::bytes(
        most_micro_batches(config, form, inference), config.batch.micro_batch, config.batch.sequence,
        form.columns, tied ? nn::LookupGradient::host_bytes(lookup_gradient_sizes(model, config, form)) : 0,
        nn::all_tally_words(model.config()));
  return plans;
}

/// Memory beside the arena: for the exchanges inside a block, one at a time, and for what strategies need.
void add_memory(EnginePlans* plans, const parallel::Strategies& strategies, const Target& target,
                const parallel::BlockExchanges& exchanges) {
  const parallel::BesideArena beside =
      strategies.beside_arena(planned_step(*plans, strategies.form(), target.in_place));
  plans->pinned.offload = beside.offload, plans->pinned.counts = beside.counts;
  plans->snapshot_bytes = beside.snapshots;
  plans->device_message_bytes = beside.device_messages;
  plans->device_transport_bytes += beside.device_messages;
  if (target.peers) {
    plans->device_exchange_bytes = exchanges.most_sum_bytes();
    plans->device_transport_bytes += exchanges.most_sum_bytes();
  } else if (!target.in_place) {
    plans->pinned.exchange = exchanges.most_bytes();
  }
}

/// Refuses quantized_gradients if no gradient would be sent in records.
void require_quantized(const nn::Model& model, const parallel::DataParallelStrategy& data) {
  const auto quantized = [](const nn::ParameterGroup& g) { return g.trainable && nn::is_product(g.read); };
  const std::vector<nn::ParameterGroup>& groups = model.table().groups();
  if (!is_block_type(data.records) || std::any_of(groups.begin(), groups.end(), quantized)) return;
  fail(Code::kConfigInvalid,
       "/zero/quantized_gradients: {} has no effect: no weight of a matrix product is trained "
       "(/optimizer/frozen, /adapter), and other gradients are not quantised; use \"off\"",
       data.records == DType::kI8Block ? "\"int8\"" : "\"int4\"");
}

/// Refuses optimizers that only the CPU has on GPUs, which /device "auto" may have chosen.
void require_optimizers(const nn::Model& model, const Target& target) {
  if (std::string_view(target.kernels->name) != "cuda") return;
  for (const nn::ParameterGroup& group : model.table().groups()) {
    const optim::UpdateRule& rule = optim::rule_of(optim::kind_of(group));
    if (group.trainable && (optim::takes_matrices(group) || rule.in_records))
      fail(
          Code::kConfigInvalid,
          "/device: optimizer \"{}\" is not supported on device \"cuda\" yet: set /device to \"cpu\", or use "
          "\"adamw\", \"lion\" or \"sgd\" in /optimizer/kind and /optimizer/rules",
          rule.name);
  }
}

}  // namespace

parallel::PlannedStep planned_step(const EnginePlans& plans, const parallel::StepForm& form, bool in_place) {
  std::vector<const plan::Plan*> all;
  for_each_plan(plans, [&](const plan::Plan& plan) { all.push_back(&plan); });
  return {std::move(all), plans.outside, ExpertCalls(plans.any(), form.expert_micro_batches).count(),
          in_place, plans.peers};
}

std::vector<EnginePlans> make_stage_plans(const nn::Model& model, const config::ResolvedConfig& config,
                                          const Target& target, bool inference) {
  require_countable(model, config);
  const parallel::Strategies strategies = strategies_of(config);
  strategies.require_effect(target.in_place);
  if (!inference) require_quantized(model, strategies.form().data);
  if (!inference) require_optimizers(model, target);
  ExchangeNotes notes;
  const parallel::BlockExchanges exchanges =
      strategies.counted_exchanges(&notes, target.in_place || target.peers, target.imbalance);
  const plan::Sizes sizes = step_sizes(model, config, target, strategies, exchanges, &notes);
  const parallel::pipeline::Division division = strategies.divide(sizes);
  parallel::DataParallelStrategy data = strategies.form().data;
  data.stage_of = division.stage_of();
  std::string stopped;
  for (size_t lifetime = division.least_sent_lifetime(); lifetime <= kMostKept; lifetime *= 2) {
    std::vector<EnginePlans> all(static_cast<size_t>(division.stages()));
    on_all_cores(division.stages(), [&](int64_t s) {
      EnginePlans& plans = all[static_cast<size_t>(s)];
      const auto stage_of = [&](int64_t micro_batches) {
        return strategies.stage(division, sizes, s, lifetime, micro_batches);
      };
      plans = plans_of_stage(model, config, target, inference, strategies, data, stage_of,
                             strategies.first_of_stage(s), sizes);
      add_memory(&plans, strategies, target, exchanges);
    });
    stopped = find_deadlock(all);
    if (stopped.empty()) return all;
  }
  fail(Code::kInternal, "the stages of the pipeline would deadlock: {}", stopped);
}

EnginePlans make_plans(const nn::Model& model, const config::ResolvedConfig& config, const Target& target,
                       bool inference) {
  return std::move(make_stage_plans(model, config, target, inference).front());
}

}  // namespace hawser::train
