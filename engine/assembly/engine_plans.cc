#include "engine/assembly/engine_plans.h"

#include <algorithm>
#include <bit>

#include "engine/assembly/agreement_bytes.h"
#include "engine/assembly/countable.h"
#include "engine/base/error.h"
#include "engine/base/on_all_cores.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/execute/executor.h"
#include "engine/nn/rope_table.h"
#include "engine/optim/grad_norm.h"
#include "engine/parallel/bucket_runtime.h"
#include "engine/parallel/context_parallel.h"
#include "engine/parallel/data_parallel.h"
#include "engine/parallel/offload.h"
#include "engine/parallel/pipeline/balance.h"
#include "engine/parallel/pipeline/stages.h"
#include "engine/parallel/sequence_parallel.h"
#include "engine/parallel/staged_disk_store.h"
#include "engine/parallel/traffic.h"
#include "engine/parallel/zero.h"
#include "engine/plan/flow.h"
#include "engine/plan/serial.h"
#include "kernels/include/levels.h"

namespace hawser::train {
namespace {

/// Of any rank: all have as many.
nn::LocalColumns own_columns(const config::ResolvedConfig& config) { return {config.mesh.cp, 0}; }

plan::Accumulation accumulation_of(const parallel::DataParallel& strategy, int64_t micro_batches) {
  if (strategy.tree && micro_batches > 1) return plan::Accumulation::kTree;
  return strategy.reduces_each(micro_batches) ? plan::Accumulation::kFresh : plan::Accumulation::kInPlace;
}

plan::Cost cost_of(const nn::CallCost& c) {
  return {c.workspace, c.saved, c.flops, c.exchanges, c.kept, c.made, c.remade, c.remade_kept};
}

void add_state_sizes(plan::Sizes* s, const nn::Model& model, const config::ResolvedConfig& config,
                     const parallel::ShardLayout& layout, bool inference) {
  for (int32_t b = 0; b < layout.blocks(); ++b) s->state.push_back(layout.block_state(b));
  s->tied_head = model.config().tied_head;
  s->first_trainable = static_cast<int32_t>(model.first_trainable_block());
  s->scales = layout.scales_bytes();
  s->rope_table = nn::rope_table_size(model.config(), config.batch.sequence) * 4;
  if (inference) return;
  const parallel::GroupLayout& table = layout.group(layout.table().group);
  s->one_tied_gradient = model.trains_tied_head() && layout.rounds_gradients();
  if (model.trains_tied_head() && layout.table_travels()) {
    s->head_gradient = layout.table().elements * 4;
    s->table_gradient = table.elements * 4;
    s->sent_table = layout.table_share() * dtype_bytes(table.type);
  }
  if (model.trains_tied_head() && !layout.rounds_gradients() && table.here && !table.copy)
    s->lookup_gradient = nn::LookupGradient::bytes(lookup_gradient_sizes(model, config));
  s->scalars = static_cast<int64_t>(sizeof(StepScalars));
  s->norm = sums_bytes(nn::all_tally_words(model.config()));
  s->norm_workspace = optim::kAddSquaresWorkspaceBytes;
}

/// Without the state, which differs by stage.
plan::Sizes sizes_of(const nn::Model& model, const config::ResolvedConfig& config, const Target& target,
                     parallel::BlockWire* wire, parallel::BlockWire* column_wire,
                     parallel::BlockWire* expert_wire, ExchangeNotes* notes) {
  const nn::ModelConfig& m = model.config();
  const nn::LocalColumns own = own_columns(config);
  const int64_t batch = config.batch.micro_batch, columns = config.batch.sequence, seq = own.count(columns);
  const nn::WeightTypes types{compute_type(config), state_type(config)};
  const auto exchange = parallel::make_exchange(config.mesh.sequence_parallel, wire);
  const parallel::TensorParallel cached_exchange(wire);
  const auto column_exchange = parallel::make_column_exchange(config.mesh.cp_mode, column_wire);
  const auto experts = parallel::make_expert_exchange(expert_wire, expert_round(config));
  const bool chunk_logits = !target.in_place || config.mesh.tp > 1 ||
                            config.mesh.cp > 1;  // only one of the ranks gets the caller's memory
  const nn::BackwardForm form{choose_strategy(config).halves, config.recompute.remakes};
  const nn::ModelCosts costs =
      nn::measure_costs(model, *target.kernels, target.workers, types, batch, seq, true, chunk_logits,
                        *exchange, *column_exchange, notes, form, *experts);
  plan::Sizes s;
  s.halves = form.halves;
  s.weight_half_reads = m.adapter.on(), s.pairs = config.objective.pairs();
  if (form.remakes.any()) s.recompute_every = static_cast<int32_t>(config.recompute.every);
  s.residual = exchange->own_rows(batch * seq).room * m.width * 4;
  s.batch = MicroBatch::bytes(batch, columns, own);
  s.losses = batch * seq * 4;
  s.embedding_forward = cost_of(costs.embedding_forward);
  s.embedding_backward = cost_of(costs.embedding_backward);
  const auto of_blocks = [&](std::vector<plan::Cost>* to, const std::vector<nn::CallCost>& calls) {
    for (const nn::CallCost& c : calls) {
      const bool divided = config.mesh.ep > 1 && m.is_sparse(std::ssize(*to));
      to->push_back(cost_of(c));
      to->back().host = divided && !target.in_place;
    }
  };
  of_blocks(&s.block_forward, costs.block_forward);
  of_blocks(&s.block_backward, costs.block_backward);
  of_blocks(&s.block_backward_input, costs.block_backward_input);
  of_blocks(&s.block_backward_weight, costs.block_backward_weight);
  of_blocks(&s.block_recompute, costs.block_recompute);
  s.loss = cost_of(costs.loss);
  s.loss_eval = cost_of(costs.loss_eval);
  s.logits = cost_of(costs.logits);

  const int64_t rows = generate_rows(config);
  s.generate_residual = rows * m.width * 4;
  s.generate_batch = MicroBatch::bytes(1, rows);
  s.generate_workspace = nn::measure_cached_workspace(model, *target.kernels, target.workers, types, rows,
                                                      columns, chunk_logits, cached_exchange, *experts);
  s.kv_cache = columns * nn::cached_bytes(model.local(), compute_type(config));
  return s;
}

}  // namespace

parallel::ExpertRound expert_round(const config::ResolvedConfig& config) {
  const int64_t rows = config.batch.micro_batch * own_columns(config).count(config.batch.sequence);
  const nn::MoeConfig& moe = config.model.moe;
  if (config.mesh.ep == 1) return {};
  return parallel::ExpertRound::of((rows + config.mesh.tp - 1) / config.mesh.tp, moe.top_k, moe.experts,
                                   config.mesh.ep, config.moe.rows_factor, choose_strategy(config).halves);
}

int64_t eval_micro_batches(const config::ResolvedConfig& config) { return config.mesh.pp; }

int64_t most_micro_batches(const config::ResolvedConfig& config, bool inference) {
  return std::max(eval_micro_batches(config), inference ? 1 : config.batch.grad_accum_steps);
}

ExpertCalls expert_calls(const plan::Plan& plan, const config::ResolvedConfig& config) {
  return ExpertCalls(plan, config.mesh.pp > 1 ? most_micro_batches(config, false) : 1);
}

int64_t generate_rows(const config::ResolvedConfig& config) {
  return std::min<int64_t>(config.batch.sequence, 64);
}

DType compute_type(const config::ResolvedConfig& config) {
  return config.precision == config::Precision::kFp32 ? DType::kF32 : DType::kBf16;
}

DType state_type(const config::ResolvedConfig& config) {
  return config.precision == config::Precision::kBf16Pure ? DType::kBf16 : DType::kF32;
}

nn::LookupGradient::Sizes lookup_gradient_sizes(const nn::Model& model,
                                                const config::ResolvedConfig& config) {
  const int64_t micro_batches = config.batch.grad_accum_steps;
  const bool joins_each =
      accumulation_of(choose_strategy(config), micro_batches) != plan::Accumulation::kInPlace;
  const int64_t words = model.table().at("embedding.tokens.weight").local_shape[0];
  return {words, model.config().width,
          config.batch.micro_batch * own_columns(config).count(config.batch.sequence), micro_batches,
          joins_each};
}

const kernels::KernelTable& choose_kernels(const config::ResolvedConfig& config) {
  if (config.cpu.max_isa.empty()) return kernels::cpu_kernels(kernels::best_cpu_level());
  const int32_t level = kernels::cpu_level_from_name(config.cpu.max_isa);
  if (level < 0) fail(Code::kConfigInvalid, "/cpu/max_isa \"{}\" is no CPU level", config.cpu.max_isa);
  return kernels::cpu_kernels(std::min(static_cast<kernels::CpuLevel>(level), kernels::best_cpu_level()));
}

int32_t choose_threads(const config::ResolvedConfig& config, int32_t ranks) {
  const auto wanted = static_cast<int32_t>(config.cpu.threads);
  return std::max(1, (wanted > 0 ? wanted : device::default_threads()) / ranks);
}

mesh::DeviceMesh mesh_of(const config::ResolvedConfig& config) {
  mesh::Degrees degrees;
  degrees.pp = config.mesh.pp;
  degrees.dp_replicate = config.mesh.dp_replicate;
  degrees.dp_shard = config.mesh.dp_shard;
  degrees.cp = config.mesh.cp;
  degrees.tp = config.mesh.tp;
  degrees.ep = config.mesh.ep;
  return mesh::DeviceMesh(degrees);
}

parallel::DataParallel choose_strategy(const config::ResolvedConfig& config) {
  const parallel::ZeroConfig& zero = config.zero;
  parallel::DataParallel d;
  d.stage = zero.stage;
  const mesh::DeviceMesh mesh = mesh_of(config);
  const parallel::StateLayout layout(mesh, zero.stage, 0);
  d.shards = degree(mesh, layout.reduction().scatter);
  d.replicas = degree(mesh, layout.reduction().across);
  d.expert_shards = config.mesh.ep > 1 ? degree(mesh, layout.reduction(true).scatter) : 1;
  d.per_micro_batch = zero.reduce == parallel::ReducePolicy::kPerMicroBatch;
  d.tree = zero.sum_order == parallel::SumOrder::kTree;
  d.reshard = zero.reshard_after_forward;
  d.reshard_group = zero.reshard_group;
  d.prefetch = zero.prefetch;
  d.wire = zero.gradient_type;
  d.sum_group = d.tree ? 0 : config.comm.sum_group;
  // Ranks that divide experts have added up the gradients of their rows.
  const int64_t added = d.sum_group * config.mesh.tp;
  d.expert_sum_group = added % config.mesh.ep == 0 ? added / config.mesh.ep : 1;
  // Stage 3 works block by block.
  d.bucket_bytes = zero.stage == 3 ? 1 : zero.bucket_bytes;
  d.first_bucket_bytes = zero.stage == 3 ? 1 : zero.first_bucket_bytes;
  d.halves = config.mesh.pp > 1 && parallel::pipeline::splits_backward(config.pipeline.schedule);
  return d;
}

parallel::ShardLayout::Options layout_options(const config::ResolvedConfig& config,
                                              const parallel::DataParallel& strategy, int64_t rank,
                                              bool inference) {
  const int64_t micro_batches = config.batch.grad_accum_steps;
  parallel::ShardLayout::Options o;
  o.compute = compute_type(config), o.state = state_type(config);
  o.stage = strategy.stage;
  o.mesh = mesh_of(config), o.rank = rank, o.sequence_parallel = config.mesh.sequence_parallel;
  if (strategy.reshard == parallel::ReshardAfterForward::kGroup) o.reshard_group = strategy.reshard_group;
  o.training = !inference;
  o.moments = inference ? 0 : optim::moment_count(config.optimizer);
  o.gradient_buckets = strategy.gradient_buckets(micro_batches);
  o.own_gradient_shards = o.gradient_buckets || strategy.reduces_each(micro_batches);
  o.stage_of = strategy.stage_of, o.tied_head = config.model.tied_head,
  o.base_elsewhere = base_is_elsewhere(config), o.base_borrowed = config.init.on_engine;
  return o;
}

namespace {

/// Adds the bytes of the sums over ranks, through the hosts, to what the plan sends.
void count_agreements(plan::Plan* plan, const AgreementBytes& bytes) {
  for (plan::Instruction& n : plan->instructions)
    if (const int64_t sent = bytes.of(n)) n.sent_bytes = sent;
}

parallel::pipeline::Shape shape_of(const config::ResolvedConfig& config) {
  const int64_t group = config.pipeline.group > 0 ? config.pipeline.group : config.mesh.pp;
  return {config.pipeline.schedule, config.mesh.pp, config.batch.grad_accum_steps, config.pipeline.chunks,
          group};
}

/// Layers of each chunk: as the config says, or so that the slowest is as fast as it can be.
std::vector<int64_t> layers_of_chunks(const config::ResolvedConfig& config, const plan::Sizes& sizes) {
  if (!config.pipeline.layers.empty()) return config.pipeline.layers;
  std::vector<double> costs;
  for (size_t l = 0; l < sizes.block_forward.size(); ++l)
    costs.push_back(sizes.block_forward[l].flops + sizes.block_backward[l].flops);
  return parallel::pipeline::balance(costs, sizes.embedding_forward.flops + sizes.embedding_backward.flops,
                                     sizes.loss.flops, config.mesh.pp * config.pipeline.chunks);
}

/// For how many actions what was sent stays at least (Stage::sent_lifetime_actions). A V of many stages
/// always needs this much, so less need not be tried.
size_t least_kept(const parallel::pipeline::Shape& shape) {
  const size_t least = plan::Stage().sent_lifetime_actions;
  if (!parallel::pipeline::is_v(shape.schedule)) return least;
  return std::max(least, std::bit_floor(static_cast<size_t>(std::min<int64_t>(shape.stages, 16))));
}

/// More actions than any stage has.
constexpr size_t kMostKept = size_t{1} << 32;

/// Every plan is played through before it is used.
std::string find_deadlock(const std::vector<EnginePlans>& all) {
  if (all.size() == 1) return "";
  for (const auto plan : kPlans) {
    std::vector<const plan::Plan*> of_stages;
    for (const EnginePlans& plans : all) of_stages.push_back(&(plans.*plan));
    if (std::string stopped = plan::find_deadlock(of_stages); !stopped.empty()) return stopped;
  }
  return "";
}

plan::Space space_of(config::OffloadSpace space) {
  switch (space) {
    case config::OffloadSpace::kOff:
      break;
    case config::OffloadSpace::kHost:
      return plan::Space::kHost;
    case config::OffloadSpace::kDisk:
      return plan::Space::kDisk;
  }
  return plan::Space::kArena;
}

/// Pinned memory for the plan's transfers through the host.
void stage_transfers(const plan::Plan& plan, const parallel::ShardLayout& layout,
                     const parallel::DataParallel& strategy, PinnedBytes* pinned) {
  pinned->transfers = std::max(pinned->transfers, parallel::transfer_staging_bytes(plan, layout, strategy));
  const parallel::LaneBytes largest = parallel::largest_messages(plan, layout, strategy);
  for (size_t lane = 0; lane < largest.size(); ++lane)
    pinned->messages[lane] = std::max(pinned->messages[lane], largest[lane]);
}

EnginePlans plans_of_stage(const nn::Model& model, const config::ResolvedConfig& config, const Target& target,
                           bool inference, const parallel::DataParallel& strategy, const plan::Stage& stage,
                           int64_t rank, plan::Sizes sizes) {
  EnginePlans plans;
  plans.strategy = strategy;
  plans.stage = stage;
  plans.peers = target.peers;
  const parallel::ShardLayout layout(model.table(), layout_options(config, strategy, rank, inference));
  add_state_sizes(&sizes, model, config, layout, inference);
  const auto micro_batches = static_cast<int32_t>(config.batch.grad_accum_steps);
  if (!inference) {
    plans.train = plan::train_plan(sizes, stage, micro_batches, accumulation_of(strategy, micro_batches));
    parallel::reduce_gradients(&plans.train, layout, strategy, micro_batches);
    parallel::gather_updated_weights(&plans.train, layout, strategy);
    count_agreements(&plans.train, AgreementBytes(config));
    plans.offload_to = space_of(config.offload.activations);
    if (plans.offload_to != plan::Space::kArena)
      parallel::offload_activations(&plans.train, plans.offload_to, config.offload.prefetch);
  }
  plans.eval = plan::eval_plan(sizes, stage);
  if (config.mesh.pp > 1)
    plans.eval_pipeline =
        plan::eval_pipeline_plan(sizes, stage, static_cast<int32_t>(eval_micro_batches(config)));
  plans.logits = plan::logits_plan(sizes, stage);
  plans.generate = plan::generate_plan(sizes, stage);
  for (const auto member : kPlans) {
    plan::Plan* const plan = &(plans.*member);
    if (plan->instructions.empty()) continue;
    parallel::gather_weights_for_use(plan, layout, strategy);
    plan::finish(plan);
    plans.arena_bytes = std::max(plans.arena_bytes, plan->peak_bytes);
    plans.offload_bytes = std::max(plans.offload_bytes, plan->offload_bytes);
    if (target.peers)
      plans.device_transport_bytes =
          std::max(plans.device_transport_bytes, parallel::transfer_device_bytes(*plan, layout, strategy));
    else if (!target.in_place)
      stage_transfers(*plan, layout, strategy, &plans.pinned);
  }
  if (plans.offload_to == plan::Space::kHost) plans.pinned.offload = plans.offload_bytes;
  if (plans.offload_to == plan::Space::kDisk && !target.in_place)
    plans.pinned.offload = parallel::StagedDiskStore::staging_bytes(parallel::largest_move(plans.train));
  if (target.peers && config.mesh.pp > 1)
    plans.device_transport_bytes += plans.device_message_bytes = plan::Plan::kAlign;
  const bool tied = sizes.lookup_gradient > 0;
  if (!target.in_place)
    plans.pinned.step = StepMirror::bytes(
        most_micro_batches(config, inference), config.batch.micro_batch, config.batch.sequence,
        own_columns(config), tied ? nn::LookupGradient::host_bytes(lookup_gradient_sizes(model, config)) : 0,
        nn::all_tally_words(model.config()));
  return plans;
}

/// Memory for the exchanges inside a block, one at a time, and for what the host counts.
void add_exchanges(EnginePlans* plans, const config::ResolvedConfig& config, const Target& target,
                   std::initializer_list<const parallel::BlockWire*> wires) {
  int64_t most = 0, most_sum = 0;
  for (const parallel::BlockWire* wire : wires)
    if (wire->ranks() > 1)
      most = std::max(most, wire->most_bytes()), most_sum = std::max(most_sum, wire->most_sum_bytes());
  if (target.peers) plans->device_exchange_bytes = most_sum, plans->device_transport_bytes += most_sum;
  if (!target.peers && !target.in_place) plans->pinned.exchange = most;
  if (const int64_t calls = expert_calls(plans->any(), config).count(); calls > 0)
    plans->pinned.counts = parallel::ExpertHost::bytes(calls, config.mesh.ep, config.model.moe.experts);
}

}  // namespace

std::vector<EnginePlans> make_stage_plans(const nn::Model& model, const config::ResolvedConfig& config,
                                          const Target& target, bool inference) {
  require_countable(model, config);
  if (config.offload.activations == config::OffloadSpace::kHost && target.in_place)
    fail(Code::kConfigInvalid,
         "/offload/activations \"host\" has no effect: the device is the cpu, which computes in the host's "
         "memory; use \"disk\" or \"off\"");
  ExchangeNotes notes;
  parallel::CountingWire wire(config.mesh.tp, "tp", &notes), column_wire(config.mesh.cp, "cp", &notes),
      expert_wire(config.mesh.ep, "ep", &notes, target.in_place || target.peers);
  const plan::Sizes sizes = sizes_of(model, config, target, &wire, &column_wire, &expert_wire, &notes);
  parallel::DataParallel strategy = choose_strategy(config);
  const mesh::DeviceMesh mesh = mesh_of(config);
  const parallel::pipeline::Shape shape = shape_of(config);
  const std::vector<int64_t> layers = layers_of_chunks(config, sizes);
  if (shape.stages > 1) strategy.stage_of = parallel::pipeline::stage_of_blocks(shape, layers);
  std::string stopped;
  for (size_t keeps = least_kept(shape); keeps <= kMostKept; keeps *= 2) {
    std::vector<EnginePlans> all(static_cast<size_t>(shape.stages));
    on_all_cores(shape.stages, [&](int64_t s) {
      plan::Stage stage = parallel::pipeline::make_stage(shape, layers, s);
      stage.sent_lifetime_actions = keeps;
      EnginePlans& plans = all[static_cast<size_t>(s)];
      plans = plans_of_stage(model, config, target, inference, strategy, stage,
                             mesh.at(0, mesh::Axis::kPp, s), sizes);
      add_exchanges(&plans, config, target, {&wire, &column_wire, &expert_wire});
    });
    stopped = find_deadlock(all);
    if (stopped.empty()) return all;
  }
  fail(Code::kInternal, "the stages of the pipeline stop for ever: {}", stopped);
}

EnginePlans make_plans(const nn::Model& model, const config::ResolvedConfig& config, const Target& target,
                       bool inference) {
  return std::move(make_stage_plans(model, config, target, inference).front());
}

}  // namespace hawser::train
