#include "engine/parallel/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/parallel/context_parallel.h"
#include "engine/parallel/data_parallel.h"
#include "engine/parallel/early_fetches.h"
#include "engine/parallel/host_update.h"
#include "engine/parallel/offload.h"
#include "engine/parallel/offload_activations.h"
#include "engine/parallel/offload_gradients.h"
#include "engine/parallel/offload_state.h"
#include "engine/parallel/offload_weights.h"
#include "engine/parallel/pipeline/message_lanes.h"
#include "engine/parallel/recompute.h"
#include "engine/parallel/sequence_parallel.h"
#include "engine/parallel/zero.h"

namespace hawser::parallel {
namespace {

using mesh::Axis;
using Over = GroupWish::Over;

/// The ranks that differ from that of `place` on `axes`.
GroupWish wish(const RankPlace& place, const StepForm& form, std::unique_ptr<comm::ProcessGroup>* to,
               const std::vector<mesh::SubAxis>& axes, const char* name, Over over) {
  const std::vector<int64_t> ranks = group(place.layout.options().mesh, place.rank, axes);
  comm::GroupRequest request{{ranks.begin(), ranks.end()}, name};
  if (over == Over::kBlocks) request.lane = block_lane(form.sums_in_chunks);
  if (over == Over::kOverlapped) request.lane = overlapped_lane();
  return {to, std::move(request), over};
}

class Pipeline final : public Strategy {
 public:
  explicit Pipeline(const Settings& s) : s_(s), stages_(s.config.mesh.pp) {}

  void shape(StepForm* form) const override {
    const PipelineSchedule schedule = s_.config.pipeline.schedule;
    form->backward.halves = stages_ > 1 && pipeline::splits_backward(schedule);
    form->overlaps_instructions = stages_ > 1 && pipeline::overlaps(schedule) && s_.config.mesh.ep > 1;
    form->eval_micro_batches = stages_;
    if (stages_ > 1) form->expert_micro_batches = std::max(stages_, s_.micro_batches);
  }
  void lay_out(ShardLayout::Options* options, const DataParallelStrategy& data,
               const StepForm&) const override {
    options->stage_of = data.stage_of;
  }
  void reserve(const PlannedStep& step, BesideArena* bytes) const override {
    if (step.peers && stages_ > 1) bytes->device_messages = plan::Plan::kAlign;
  }
  void add_groups(const RankPlace& place, const StepForm&, DataParallelGroups* groups,
                  std::vector<GroupWish>* wishes) const override {
    const mesh::DeviceMesh& mesh = place.layout.options().mesh;
    for (pipeline::MessageLane& m : pipeline::message_lanes(mesh, place.rank, place.plans))
      wishes->push_back(
          {&groups->stages[static_cast<size_t>(m.lane)], std::move(m.group), Over::kMessages, m.lane});
  }
  std::string words() const override {
    if (stages_ == 1) return "";
    return fmt::format(". {} stages of a pipeline ({}) divide the layers", stages_,
                       pipeline::schedule_name(s_.config.pipeline.schedule));
  }

 private:
  const Settings s_;
  const int64_t stages_;
};

class ContextParallelism final : public Strategy {
 public:
  explicit ContextParallelism(const Settings& s) : mesh_(s.config.mesh) {}

  void shape(StepForm* form) const override {
    form->columns = {mesh_.cp, 0};
    form->shares_rows |= mesh_.cp > 1;
    form->shares_blocks |= mesh_.cp > 1;
  }
  void add_groups(const RankPlace& place, const StepForm& form, DataParallelGroups* groups,
                  std::vector<GroupWish>* wishes) const override {
    if (mesh_.cp == 1) return;
    wishes->push_back(wish(place, form, &groups->cp, {Axis::kCp}, "cp", Over::kBlocks));
    if (!place.peers) return;
    wishes->push_back(wish(place, form, &groups->cp_hosts, {Axis::kCp}, "cp (hosts)", Over::kHosts));
    wishes->back().request.pairs = comm::LinkTopology::kTree;
  }
  void add_exchanges(const StepForm&, const BlockExchanges::MakeWire& make_wire, const ExpertHost&,
                     BlockExchanges* exchanges) const override {
    if (BlockWire* const wire = exchanges->add_wire(Axis::kCp, make_wire(Axis::kCp)))
      exchanges->set_columns(make_column_exchange(mesh_.cp_mode, wire));
  }
  void add_to(Hash* hash) const override { hash->add(mesh_.cp).add(mesh_.cp_mode); }
  std::string words() const override {
    if (mesh_.cp == 1) return "";
    return fmt::format(". {} context-parallel ranks divide the columns of each row ({})", mesh_.cp,
                       mesh::kContextModeNames[static_cast<size_t>(mesh_.cp_mode)]);
  }

 private:
  const mesh::MeshConfig mesh_;
};

/// With or without sequence parallelism.
class TensorParallelism final : public Strategy {
 public:
  explicit TensorParallelism(const Settings& s) : mesh_(s.config.mesh) {}

  void shape(StepForm* form) const override {
    form->shares_rows |= mesh_.tp > 1;
    form->shares_blocks |= mesh_.tp > 1;
    form->sums_in_chunks = mesh_.tp_chunks > 1;
  }
  /// Through the host, exchanges are carried out one after the other while the device waits.
  void require_effect(bool in_place, bool peers) const override {
    if (mesh_.tp_chunks > 1 && !in_place && !peers)
      fail(Code::kConfigInvalid,
           "/mesh/tp_chunks {} has no effect: tensor-parallel ranks exchange data through the host's memory, "
           "while the device waits; use 1, or one GPU per rank and /comm/device_transport \"nccl\"",
           mesh_.tp_chunks);
  }
  void lay_out(ShardLayout::Options* options, const DataParallelStrategy&, const StepForm&) const override {
    options->sequence_parallel = mesh_.sequence_parallel;
  }
  void add_groups(const RankPlace& place, const StepForm& form, DataParallelGroups* groups,
                  std::vector<GroupWish>* wishes) const override {
    for (const ModelSum& sum : place.layout.model_sums()) {
      const bool of_tp = sum.op == plan::Op::kReduceTp;
      wishes->push_back(wish(place, form, of_tp ? &groups->tp_sums : &groups->kv_sums, sum.axes,
                             of_tp ? "tp_sums" : "kv_sums", Over::kTransfers));
    }
    if (mesh_.tp > 1) wishes->push_back(wish(place, form, &groups->tp, {Axis::kTp}, "tp", Over::kBlocks));
  }
  void add_exchanges(const StepForm&, const BlockExchanges::MakeWire& make_wire, const ExpertHost&,
                     BlockExchanges* exchanges) const override {
    if (BlockWire* const wire = exchanges->add_wire(Axis::kTp, make_wire(Axis::kTp)))
      exchanges->set_exchange(make_exchange(mesh_.sequence_parallel, mesh_.tp_chunks, wire),
                              make_exchange(false, 1, wire));
  }
  void add_to(Hash* hash) const override {
    hash->add(mesh_.tp).add(mesh_.sequence_parallel).add(mesh_.tp_chunks);
  }
  std::string words() const override {
    if (mesh_.tp == 1) return "";
    return fmt::format(". {} tensor-parallel ranks compute each block together{}{}", mesh_.tp,
                       mesh_.sequence_parallel ? " and divide the rows between (sequence parallelism)" : "",
                       mesh_.tp_chunks > 1 ? fmt::format(", and sum in {} chunks", mesh_.tp_chunks) : "");
  }

 private:
  const mesh::MeshConfig mesh_;
};

class ExpertParallelism final : public Strategy {
 public:
  explicit ExpertParallelism(const Settings& s) : s_(s), ranks_(s.config.mesh.ep) {}

  void shape(StepForm* form) const override {
    form->shares_blocks |= ranks_ > 1;
    if (ranks_ == 1) return;
    const int64_t tp = s_.config.mesh.tp, rows = s_.micro_batch * form->columns.count(s_.sequence);
    form->expert_round = ExpertRound::of((rows + tp - 1) / tp, s_.model.moe.top_k, s_.model.moe.experts,
                                         ranks_, s_.moe.rows_factor, form->backward.halves);
  }
  /// The host counts rows for experts where it does not reach the device's memory.
  void add_sizes(plan::Sizes* sizes, bool in_place) const override {
    if (ranks_ == 1 || in_place) return;
    std::vector<std::vector<plan::Cost>*> all = {&sizes->block_forward,        &sizes->block_backward,
                                                 &sizes->block_backward_input, &sizes->block_backward_weight,
                                                 &sizes->block_recompute,      &sizes->block_repeat};
    for (std::vector<plan::Cost>& blocks : sizes->block_forward_deferring) all.push_back(&blocks);
    for (auto* const blocks : all)
      for (size_t layer = 0; layer < blocks->size(); ++layer)
        (*blocks)[layer].host = s_.model.is_sparse(static_cast<int64_t>(layer));
  }
  void reserve(const PlannedStep& step, BesideArena* bytes) const override {
    if (step.expert_calls > 0)
      bytes->counts = ExpertHost::bytes(step.expert_calls, ranks_, s_.model.moe.experts);
  }
  void add_groups(const RankPlace& place, const StepForm& form, DataParallelGroups* groups,
                  std::vector<GroupWish>* wishes) const override {
    if (ranks_ == 1) return;
    wishes->push_back(wish(place, form, &groups->ep, {Axis::kEp}, "ep",
                           place.training && form.overlaps_instructions ? Over::kOverlapped : Over::kBlocks));
  }
  void add_exchanges(const StepForm& form, const BlockExchanges::MakeWire& make_wire, const ExpertHost& host,
                     BlockExchanges* exchanges) const override {
    BlockWire* const wire = exchanges->add_wire(Axis::kEp, make_wire(Axis::kEp));
    if (wire == nullptr) return;
    exchanges->set_experts(make_expert_exchange(wire, form.expert_round, host));
    if (form.overlaps_instructions) exchanges->set_overlapped(wire);
  }
  void add_to(Hash* hash) const override { hash->add(ranks_); }
  std::string words() const override {
    return ranks_ == 1 ? "" : fmt::format(". {} of them divide the experts of each layer", ranks_);
  }

 private:
  const Settings s_;
  const int64_t ranks_;
};

/// Gradients are reduced, and at ZeRO 1 and 2 what they update is gathered.
class DataParallelism final : public Strategy {
 public:
  explicit DataParallelism(const Settings& s) : s_(s) {}

  void shape(StepForm* form) const override {
    const ZeroConfig& zero = s_.config.zero;
    const mesh::MeshConfig& degrees = s_.config.mesh;
    const mesh::DeviceMesh mesh(degrees);
    const StateLayout layout(mesh, zero.stage, 0);
    DataParallelStrategy& d = form->data;
    d.stage = zero.stage;
    d.shards = degree(mesh, layout.reduction().scatter);
    d.replicas = degree(mesh, layout.reduction().across);
    d.expert_shards = degrees.ep > 1 ? degree(mesh, layout.reduction(true).scatter) : 1;
    d.per_micro_batch = zero.reduce == ReducePolicy::kPerMicroBatch;
    d.tree = zero.sum_order == SumOrder::kTree;
    d.reshard = zero.reshard_after_forward;
    d.reshard_group = zero.reshard_group;
    d.prefetch = zero.prefetch;
    d.wire = zero.gradient_type;
    if (zero.quantized_gradients == QuantizedGradients::kInt8) d.records = DType::kI8Block;
    if (zero.quantized_gradients == QuantizedGradients::kInt4) d.records = DType::kI4Block;
    d.sum_group = d.tree ? 0 : s_.config.comm.sum_group;
    // Ranks that divide experts have added up the gradients of their rows.
    const int64_t added = d.sum_group * degrees.tp;
    d.expert_sum_group = added % degrees.ep == 0 ? added / degrees.ep : 1;
    // Stage 3 works block by block.
    d.bucket_bytes = zero.stage == 3 ? 1 : zero.bucket_bytes;
    d.first_bucket_bytes = zero.stage == 3 ? 1 : zero.first_bucket_bytes;
  }
  void lay_out(ShardLayout::Options* options, const DataParallelStrategy& data,
               const StepForm& form) const override {
    options->stage = data.stage;
    options->gradient_buckets = data.gradient_buckets(s_.micro_batches, form.backward.halves);
    options->own_gradient_shards = options->gradient_buckets || data.reduces_each(s_.micro_batches);
  }
  void pass(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& data,
            Purpose purpose) const override {
    if (purpose == Purpose::kPublish) gather_all_weights(plan, layout);
    if (purpose != Purpose::kTrain) return;
    reduce_gradients(plan, layout, data, s_.micro_batches);
    gather_updated_weights(plan, layout, data);
  }
  void add_groups(const RankPlace& place, const StepForm& form, DataParallelGroups* groups,
                  std::vector<GroupWish>* wishes) const override {
    const StateLayout& layout = place.layout.over_mesh();
    const auto want = [&](std::unique_ptr<comm::ProcessGroup>& to, const std::vector<mesh::SubAxis>& axes,
                          const char* name) {
      if (!axes.empty()) wishes->push_back(wish(place, form, &to, axes, name, Over::kTransfers));
    };
    const bool matrices = !place.layout.matrices().all().empty() && place.training;
    if (matrices && s_.config.mesh.world() > s_.config.mesh.pp)
      want(groups->matrices, StateLayout::holder_axes(false), "matrices");
    if (matrices && s_.config.mesh.ep > 1 && degree(layout.mesh(), StateLayout::holder_axes(true)) > 1)
      want(groups->expert_matrices, StateLayout::holder_axes(true), "expert_matrices");
    const auto& scatter = layout.reduction().scatter;
    want(groups->shard, scatter, layout.state_sharded() ? "dp_shard" : "gradients");
    want(groups->replica, layout.reduction().across, "dp_replicate");
    if (s_.config.mesh.ep == 1 || !form.data.many()) return;
    const GradientReduction& experts = layout.reduction(true);
    want(groups->edp, experts.scatter, "edp");
    want(groups->edp_replica, experts.across, "edp_replicate");
  }

 private:
  const Settings s_;
};

class Recompute final : public Strategy {
 public:
  explicit Recompute(const Settings& s) : config_(s.config.recompute) {}

  void shape(StepForm* form) const override {
    form->backward.remakes = config_.remakes, form->backward.compress = config_.compress;
  }
  void shape_stage(const plan::Sizes& sizes, plan::Stage* stage) const override {
    add_recompute_segments(config_, sizes, stage);
  }

 private:
  const RecomputeConfig config_;
};

class Offload final : public Strategy {
 public:
  explicit Offload(const Settings& s)
      : config_(s.config.offload), micro_batches_(s.micro_batches), snapshots_(s.saves_beside_steps) {}

  void require_effect(bool in_place, bool /*peers*/) const override { require_offload(config_, in_place); }
  /// Blocks do not defer sums: their saved activations begin with x', an addend of the last sum, and reading
  /// x' later would delay the offload.
  void add_sizes(plan::Sizes* sizes, bool /*in_place*/) const override {
    if (space_of(config_.activations) != plan::Space::kArena) sizes->branch = 0;
  }
  void lay_out(ShardLayout::Options* options, const DataParallelStrategy&, const StepForm&) const override {
    options->host_update = config_.updates_on_host();
    options->host_masters = options->host_update && config_.parameters != OffloadSpace::kHost;
  }
  void pass(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& data,
            Purpose purpose) const override {
    const plan::Space activations = space_of(config_.activations), state = space_of(config_.optimizer);
    if (purpose == Purpose::kTrain && activations != plan::Space::kArena)
      offload_activations(plan, activations, config_.prefetch);
    const OnHost also{config_.parameters == OffloadSpace::kHost, config_.gradients == OffloadSpace::kHost};
    if (also.gradients) offload_gradients(plan, layout, data, micro_batches_, config_.prefetch);
    if (config_.updates_on_host())
      update_on_host(plan, layout, config_.prefetch, also);
    else if (state != plan::Space::kArena)
      offload_optimizer_state(plan, state, config_.prefetch);
  }
  void reserve(const PlannedStep& step, BesideArena* bytes) const override {
    bytes->offload = offload_staging_bytes(step.plans, step.outside, step.in_place);
    if (snapshots_) bytes->snapshots = snapshot_bytes(step.plans);
  }
  OutsideArena outside_arena(const PlannedStep& step, const device::HostLink& link,
                             char* staging) const override {
    return make_outside_arena(config_, step.plans, step.outside, link, staging, snapshots_);
  }

 private:
  const OffloadConfig config_;
  const int64_t micro_batches_;
  const bool snapshots_;
};

/// ZeRO 3: weights are gathered where they are used.
class ShardedWeights final : public Strategy {
 public:
  explicit ShardedWeights(const Settings&) {}

  void lay_out(ShardLayout::Options* options, const DataParallelStrategy& data,
               const StepForm&) const override {
    if (data.reshard == ReshardAfterForward::kGroup) options->reshard_group = data.reshard_group;
  }
  void pass(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& data,
            Purpose) const override {
    gather_weights_for_use(plan, layout, data);
  }
  void add_groups(const RankPlace& place, const StepForm& form, DataParallelGroups* groups,
                  std::vector<GroupWish>* wishes) const override {
    const std::vector<mesh::SubAxis>& axes = place.layout.over_mesh().secondary_axes();
    if (!axes.empty())
      wishes->push_back(wish(place, form, &groups->secondary, axes, "secondary", Over::kTransfers));
  }
};

/// Must be the last pass: if shards are gathered, the shards are fetched, and only after all other passes are
/// the first FETCHes of the update phase known.
class OffloadedWeights final : public Strategy {
 public:
  explicit OffloadedWeights(const Settings& s) : config_(s.config.offload) {}

  void pass(plan::Plan* plan, const ShardLayout&, const DataParallelStrategy&,
            Purpose purpose) const override {
    const plan::Space to = space_of(config_.parameters);
    if (to != plan::Space::kArena) offload_weights(plan, to, config_.prefetch);
    if (purpose == Purpose::kTrain) fetch_early(plan);
  }

 private:
  const OffloadConfig config_;
};

template <class... Each>
std::vector<std::unique_ptr<Strategy>> make(const Settings& settings) {
  std::vector<std::unique_ptr<Strategy>> all;
  (all.push_back(std::make_unique<Each>(settings)), ...);
  return all;
}

}  // namespace

Strategies compose(const Settings& settings) {
  return {settings, make<Pipeline, ContextParallelism, TensorParallelism, ExpertParallelism, DataParallelism,
                         Recompute, Offload, ShardedWeights, OffloadedWeights>(settings)};
}

nn::Model local_model(const Settings& settings, bool scale_residual, const nn::TrainedParts& parts,
                      int64_t tile_rows) {
  const mesh::MeshConfig& mesh = settings.config.mesh;
  return nn::Model(settings.model, scale_residual, parts, mesh.tp, settings.moe, mesh.ep, tile_rows);
}

}  // namespace hawser::parallel
