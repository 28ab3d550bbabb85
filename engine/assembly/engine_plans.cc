#include "engine/assembly/engine_plans.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "engine/assembly/countable.h"
#include "engine/assembly/precision.h"
#include "engine/assembly/stage_planner.h"
#include "engine/assembly/step_sizes.h"
#include "engine/assembly/supported.h"
#include "engine/base/error.h"
#include "engine/base/on_all_cores.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/execute/executor.h"
#include "engine/plan/deadlock.h"
#include "engine/plan/early_plan.h"
#include "kernels/include/levels.h"

namespace hawser::train {
namespace {

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

plan::Accumulation accumulation_of(const parallel::DataParallelStrategy& strategy, int64_t most) {
  if (strategy.tree && most > 1) return plan::Accumulation::kTree;
  return strategy.reduces_each(most) ? plan::Accumulation::kFresh : plan::Accumulation::kInPlace;
}

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
  const bool adds =
      m.adapter.on() || m.moe.experts > 0 || m.is_latent() || strategies.form().backward.remakes.rows > 0;
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
  o.shares_table = inference ? config.model.tied_head : config.model.loss_reads_table();
  o.base_elsewhere = base_is_elsewhere(config), o.base_borrowed = config.init.on_engine;
  o.rounds_in_kernels = !inference && rounds_in_kernels(config, strategies);
  strategies.lay_out(&o, data);
  return o;
}

namespace {

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

/// Returns the plan of the largest step of each stage, before memory and waits are assigned.
std::vector<plan::Plan> begin_steps(const std::vector<std::unique_ptr<StagePlanner>>& stages,
                                    size_t sent_lifetime) {
  std::vector<plan::Plan> plans(stages.size());
  on_all_cores(std::ssize(stages), [&](int64_t s) {
    plans[static_cast<size_t>(s)] = stages[static_cast<size_t>(s)]->training(sent_lifetime);
  });
  return plans;
}

/// Estimates how many instructions of a plan belong to its first 2 p + 4 L actions, for p stages with two
/// chunks each and lifetime L. In these actions the pipeline fills and the first sent activations lose their
/// memory. Deadlocks of 8 to 64 stages were found there.
size_t end_of_filling(const plan::Plan& plan, size_t stages, size_t sent_lifetime) {
  const auto loads = static_cast<size_t>(plan.micro_batches);
  const size_t actions = 6 * loads;  // a forward, an input pass and a weight pass for each chunk
  const size_t filling = std::min(actions, 2 * stages + 4 * sent_lifetime);
  return loads + (plan.commit - loads) * filling / actions;
}

/// Returns true if the largest step deadlocks while the pipeline fills, as almost all deadlocks do. Assigns
/// memory and waits to the instructions up to there. If they are the whole gradient phase, returns false at
/// once, because find_deadlock also reports what each stage waits for.
bool deadlocks_early(std::vector<plan::Plan>* begun, size_t sent_lifetime) {
  std::vector<const plan::Plan*> plans;
  std::vector<size_t> ends;
  for (const plan::Plan& plan : *begun) {
    plans.push_back(&plan);
    ends.push_back(end_of_filling(plan, begun->size(), sent_lifetime));
  }
  if (ends.front() == begun->front().commit) return false;
  on_all_cores(std::ssize(*begun), [&](int64_t s) {
    plan::begin(&(*begun)[static_cast<size_t>(s)], ends[static_cast<size_t>(s)]);
  });
  return plan::deadlocks_early(plans, ends);
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
  strategies.require_effect(target.in_place, target.peers);
  if (!inference) require_quantized(model, strategies.form().data);
  require_supported(model, config, target.kernels->name, inference);
  ExchangeNotes notes;
  const parallel::BlockExchanges exchanges =
      strategies.counted_exchanges(&notes, target.in_place || target.peers, target.imbalance);
  const plan::Sizes sizes = step_sizes(model, config, target, strategies, exchanges, &notes);
  const parallel::pipeline::Division division = strategies.divide(sizes);
  const plan::Sizes without_blocks = without_costs_of_blocks(sizes);
  PipelineForm form{model,     config, target,         inference, strategies,
                    exchanges, sizes,  without_blocks, division,  strategies.form().data};
  form.data.stage_of = division.stage_of();
  std::vector<std::unique_ptr<StagePlanner>> stages(static_cast<size_t>(division.stages()));
  on_all_cores(division.stages(),
               [&](int64_t s) { stages[static_cast<size_t>(s)] = std::make_unique<StagePlanner>(form, s); });
  const bool may_deadlock = division.least_sent_lifetime() > plan::Stage().sent_lifetime_actions;
  std::string stopped;
  for (size_t lifetime = division.least_sent_lifetime(); lifetime <= kMostKept; lifetime *= 2) {
    std::vector<plan::Plan> begun;
    if (may_deadlock && !inference) begun = begin_steps(stages, lifetime);
    if (!begun.empty() && deadlocks_early(&begun, lifetime)) continue;
    std::vector<EnginePlans> all(static_cast<size_t>(division.stages()));
    on_all_cores(division.stages(), [&](int64_t s) {
      const auto number = static_cast<size_t>(s);
      const StagePlanner& stage = *stages[number];
      all[number] = stage.all(begun.empty() ? stage.training(lifetime) : std::move(begun[number]), lifetime);
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
