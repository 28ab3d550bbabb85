#include "engine/ranks/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "engine/comm/gate.h"
#include "engine/nn/rope_table.h"
#include "engine/parallel/disk_store.h"
#include "engine/parallel/offload.h"
#include "engine/parallel/pinned_store.h"
#include "engine/parallel/staged_disk_store.h"
#include "engine/ranks/borrowed_groups.h"
#include "engine/ranks/rehearsal.h"

namespace hawser::train {
namespace {

std::vector<int32_t> to_ranks(const std::vector<int64_t>& ranks) {
  return std::vector<int32_t>(ranks.begin(), ranks.end());
}

std::optional<PairObjective::Setup> pairs_of(const Rank::Shared& shared) {
  const config::ResolvedConfig& c = shared.config;
  if (shared.inference || !c.objective.pairs()) return {};
  return PairObjective::Setup{c.objective, c.batch.global_batch / 2, c.batch.grad_accum_steps,
                              c.batch.micro_batch};
}

/// Over the hosts its calls run at once, because a block waits for each.
const comm::Lane kBlockLane{.name = "block", .at_once = true};
/// The rank may compute meanwhile.
const comm::Lane kBesideLane{.name = "experts"};

}  // namespace

Rank::Rank(const Shared& shared, int32_t rank, comm::RankComm* comm, Machine* machine, const Rank* base)
    : shared_(shared), number_(rank), dp_rank_(shared.mesh.dp_rank(rank)), comm_(comm), machine_(*machine) {
  const parallel::DataParallel& strategy = plans().strategy;
  layout_ = std::make_unique<parallel::ShardLayout>(
      shared.model.table(), layout_options(shared.config, strategy, rank, shared.inference));
  Executor::Setup setup;
  if (base) setup.borrowed = borrow_groups(*base, table(), *layout_), setup.borrowed_from = base->arena();
  device::HostLink& link = machine_.link();
  const PinnedBytes& pinned = plans().pinned;
  arena_ = device::Arena::create(link.shared_device(), plans().arena_bytes);
  pinned_ = device::Arena::create_pinned(link.shared_device(), pinned.bytes());
  if (comm_) {
    if (plans().peers) reach_peers();
    make_groups();
    char* const between = pinned.transfers > 0 ? pinned_->data() + pinned.step : nullptr;
    make_exchanges();
    runtime_ = std::make_unique<parallel::BucketRuntime>(*layout_, strategy, groups_, arena_->data(), &link,
                                                         between, lent_weights(setup.borrowed));
    for (const auto plan : kPlans) runtime_->bind(plans().*plan);
  }
  make_store();
  setup.model = &shared.model;
  if (!shared.inference)
    setup.optimizer = &optimizer_.emplace(shared.model.table(), shared.config.optimizer,
                                          state_type(shared.config), shared.config.seed,
                                          [this](const nn::Parameter& p) { return layout_->share_of(p); });
  setup.link = &link, setup.arena = arena_;
  if (!link.in_place())
    setup.mirror =
        StepMirror(pinned_->data(), most_micro_batches(shared.config, shared.inference),
                   shared.config.batch.micro_batch, shared.config.batch.sequence,
                   {shared.mesh.degree(mesh::Axis::kCp), 0}, nn::all_tally_words(shared.config.model));
  setup.type = compute_type(shared.config);
  setup.seed = philox_derive(shared.config.seed, 2, 0);
  setup.remakes = shared.config.recompute.remakes;
  setup.rope_positions = shared.config.batch.sequence;
  setup.layout = layout_.get();
  setup.groups = &groups_;
  if (exchange_) setup.exchange = exchange_.get(), setup.cached_exchange = cached_exchange_.get();
  setup.sequence_parallel = shared.config.mesh.sequence_parallel;
  if (columns_) setup.columns = columns_.get();
  setup.context_mode = shared.config.mesh.cp_mode;
  if (experts_) setup.experts = experts_.get(), setup.expert_round = expert_round(shared.config);
  setup.expert_calls = expert_calls(plans().any(), shared.config);
  setup.counts_rows = counts_rows();
  setup.counts_tokens = counts_rows() && stage() == 0;
  setup.trail = peers_ ? &peers_->trail() : nullptr;
  for (int32_t r = 0; setup.trail != nullptr && r < comm_->world_size(); ++r)
    setup.kinds.push_back(kind_of_calls(r));
  setup.pairs = pairs_of(shared);
  setup.runtime = runtime_.get(), setup.store = store_.get(), setup.comm = comm_;
  if (!shared.inference && shared.model.trains_tied_head())
    setup.lookup_gradient = lookup_gradient_sizes(shared.model, shared.config);
  setup.exchanges = block_peers_.get();
  if (turns_) setup.beside = {&*turns_, expert_wire_.get(), beside_peers_.get()};
  setup.graphs = shared.config.cuda.graphs && machine_.device().info().captures;
  if ((exchange_ || columns_) && !block_peers_)
    setup.graphs_off_reason = "exchanges inside blocks go through the host, which takes no part in a graph";
  executor_ = std::make_unique<Executor>(std::move(setup), plans().any());
  fill_rope_table();
}

/// Ranks of a stage give their devices the same calls. Where they divide experts, each group of these has as
/// many rounds as its rows need; then only ranks of one group do.
int64_t Rank::kind_of_calls(int64_t rank) const {
  if (shared_.mesh.degree(mesh::Axis::kEp) > 1) return shared_.mesh.at(rank, mesh::Axis::kEp, 0);
  return shared_.mesh.coordinate(rank, mesh::Axis::kPp);
}

/// Device work may still be running, so it is awaited before its memory is freed. Its errors are ignored.
Rank::~Rank() {
  for (auto& messages : groups_.stages) messages.reset();
  message_peers_.clear();
  peers_.reset();
  block_peers_.reset();
  beside_peers_.reset();
  (void)machine_.device().synchronize(device::StreamId::kCompute);
}

void Rank::make_store() {
  if (plans().offload_bytes == 0) return;
  const auto copies = static_cast<size_t>(
      std::count_if(plans().train.instructions.begin(), plans().train.instructions.end(),
                    [](const plan::Instruction& n) { return n.op == plan::Op::kOffload; }));
  const std::string& folder = shared_.config.offload.folder;
  const int64_t bytes = plans().offload_bytes;
  const std::shared_ptr<device::Device>& device = machine_.link().shared_device();
  char* const staging = pinned_->data() + pinned_->bytes() - plans().pinned.offload;
  if (plans().offload_to == plan::Space::kHost)
    store_ = std::make_unique<parallel::PinnedStore>(device, staging, copies);
  else if (machine_.link().in_place())
    store_ = std::make_unique<parallel::DiskStore>(folder, bytes, copies);
  else
    store_ = std::make_unique<parallel::StagedDiskStore>(device, folder, bytes, copies, staging,
                                                         parallel::largest_move(plans().train));
}

std::vector<int32_t> Rank::first_of_stages() const {
  std::vector<int32_t> ranks;
  for (int64_t s = 0; s < shared_.mesh.degree(mesh::Axis::kPp); ++s)
    ranks.push_back(static_cast<int32_t>(shared_.mesh.at(0, mesh::Axis::kPp, s)));
  return ranks;
}

void Rank::make_exchanges() {
  const PinnedBytes& pinned = plans().pinned;
  char* const staging = pinned.exchange > 0 ? pinned_->data() + pinned.before_exchange() : nullptr;
  device::HostLink* const link = &machine_.link();
  const auto wire_of = [&](comm::ProcessGroup* group) -> std::unique_ptr<parallel::BlockWire> {
    if (plans().peers) return std::make_unique<parallel::DeviceWire>(group, link);
    return std::make_unique<parallel::GroupWire>(group, link, staging);
  };
  if (groups_.cp) {
    column_wire_ = wire_of(groups_.cp.get());
    columns_ = parallel::make_column_exchange(shared_.config.mesh.cp_mode, column_wire_.get());
  }
  if (groups_.ep) {
    expert_wire_ = wire_of(groups_.ep.get());
    const int64_t calls = expert_calls(plans().any(), shared_.config).count();
    parallel::ExpertHost host{link};
    if (pinned.counts > 0)
      host = parallel::ExpertHost::at(link, pinned_->data() + pinned.step + pinned.transfers, calls,
                                      groups_.ep->size(), shared_.config.model.moe.experts);
    experts_ = parallel::make_expert_exchange(expert_wire_.get(), expert_round(shared_.config), host);
    if (has_pairs()) expert_wire_->take_turns(&turns_.emplace());
  }
  if (!groups_.tp) return;
  wire_ = wire_of(groups_.tp.get());
  exchange_ = parallel::make_exchange(shared_.config.mesh.sequence_parallel, wire_.get());
  cached_exchange_ = parallel::make_exchange(false, wire_.get());
}

void Rank::reach_peers() {
  const std::shared_ptr<device::Device>& device = machine_.link().shared_device();
  sums_ = device::Arena::create(device, plans().device_transport_bytes);
  const int64_t exchange = plans().device_exchange_bytes;
  const int64_t transfers = sums_->bytes() - exchange - plans().device_message_bytes;
  comm::DeviceUse use;
  use.device = device.get();
  use.timeout_seconds = shared_.config.comm.timeout_seconds;
  use.staging = sums_->data(), use.staging_bytes = transfers;
  peers_ = comm_->on_device(use);
  using enum mesh::Axis;
  if (shared_.mesh.degree(kTp) * shared_.mesh.degree(kCp) * shared_.mesh.degree(kEp) == 1) return;
  use.staging = sums_->data() + transfers, use.staging_bytes = exchange;
  use.lane = kBlockLane, use.by_issuer = true;
  block_peers_ = comm_->on_device(use);
  if (!has_pairs()) return;
  use.lane = kBesideLane, use.by_issuer = false;
  beside_peers_ = comm_->on_device(use);
}

/// Whether halves of pairs take turns. The same on all ranks: they make the same lanes.
bool Rank::has_pairs() const {
  return !shared_.inference && shared_.mesh.degree(mesh::Axis::kEp) > 1 &&
         shared_.mesh.degree(mesh::Axis::kPp) > 1 &&
         shared_.config.pipeline.schedule == parallel::PipelineSchedule::kDualPipeV;
}

void Rank::fill_rope_table() {
  if (executor_->rope_table() == nullptr) return;
  const nn::ModelConfig& model = shared_.config.model;
  const int64_t positions = shared_.config.batch.sequence, size = nn::rope_table_size(model, positions);
  std::vector<float> table(static_cast<size_t>(size));
  nn::fill_rope_table(table.data(), model, positions);
  link().write(executor_->rope_table(), table.data(), size * static_cast<int64_t>(sizeof(float)));
}

/// Work that depends on the number of packed documents is prepared during the steps, because only the data
/// know that number.
void Rank::rehearse() {
  const kernels::KernelTable table = rehearsing(machine_.device().kernels());
  Run run;
  run.batch = shared_.config.batch.micro_batch;
  run.seq = shared_.config.batch.sequence;
  run.documents = shared_.config.data.packing;
  for (const plan::Plan* plan : {&plans().train, &plans().eval}) {
    run.training = plan == &plans().train;
    executor_->rehearse(*plan, table, run);
  }
  link().zero(arena_->data(), arena_->bytes());
  fill_rope_table();
  link().wait();
}

/// All are known before the first is made, so that the connections of all are counted together.
void Rank::make_groups() {
  using enum comm::Pairs;
  struct Wanted {
    std::unique_ptr<comm::ProcessGroup>* to;
    comm::DeviceComm* devices;       ///< null: the hosts' memory
    comm::HostStaging staging = {};  ///< of messages through the host
  };
  std::vector<comm::GroupRequest> requests;
  std::vector<Wanted> wanted;
  const auto want = [&](std::unique_ptr<comm::ProcessGroup>& to, const std::vector<mesh::SubAxis>& axes,
                        const char* name, comm::Pairs pairs, const comm::Lane& lane = {}) {
    requests.push_back({to_ranks(group(shared_.mesh, number_, axes)), name, lane, pairs});
    wanted.push_back({&to, pairs == kAll && lane.name == comm::Lane().name ? peers_.get() : nullptr});
  };
  const parallel::StateLayout& layout = layout_->over_mesh();
  const auto& scatter = layout.reduction().scatter;
  const auto& across = layout.reduction().across;
  using enum mesh::Axis;
  const std::vector<mesh::SubAxis> everyone = {kPp, kDpReplicate, kDpShard, kCp, kTp};
  want(groups_.dp, everyone, "dp", kTree);
  if (!scatter.empty()) want(groups_.shard, scatter, layout.state_sharded() ? "dp_shard" : "gradients", kAll);
  if (!across.empty()) want(groups_.replica, across, "dp_replicate", kAll);
  if (shared_.mesh.degree(kEp) > 1 && plans().strategy.many()) {
    const parallel::GradientReduction& experts = layout.reduction(true);
    want(groups_.edp, experts.scatter, "edp", kAll);
    if (!experts.across.empty()) want(groups_.edp_replica, experts.across, "edp_replicate", kAll);
  }
  for (const parallel::ModelSum& sum : layout_->model_sums()) {
    const bool of_tp = sum.op == plan::Op::kReduceTp;
    want(of_tp ? groups_.tp_sums : groups_.kv_sums, sum.axes, of_tp ? "tp_sums" : "kv_sums", kAll);
  }
  for (const auto& [to, axis, name] :
       {std::tuple{&groups_.tp, kTp, "tp"}, {&groups_.cp, kCp, "cp"}, {&groups_.ep, kEp, "ep"}}) {
    if (shared_.mesh.degree(axis) == 1) continue;
    const bool beside = axis == kEp && has_pairs();
    want(*to, {axis}, name, kAll, beside ? kBesideLane : kBlockLane);
    wanted.back().devices = (beside ? beside_peers_ : block_peers_).get();
  }
  if (shared_.mesh.degree(kCp) > 1 && block_peers_) want(groups_.cp_hosts, {kCp}, "cp (hosts)", kTree);
  for (const MessageLane& m : message_lanes(shared_.mesh, number_, plans(), *layout_)) {
    requests.push_back(m.group);
    wanted.push_back({&groups_.stages[static_cast<size_t>(m.lane)], reach_stage(m), staging_of(m.lane)});
  }
  if (!layout.secondary_axes().empty()) want(groups_.secondary, layout.secondary_axes(), "secondary", kAll);
  // Savers wait for slow disks, so their group has no deadline. The death of a rank still ends the wait.
  if (shared_.several_processes && !shared_.inference && comm_->has_lanes())
    want(saves_, everyone, "saves", kTree, {"saves", false, comm::kNoDeadline});
  comm_->expect(requests);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const comm::GroupRequest& r = requests[i];
    const Wanted& w = wanted[i];
    *w.to = w.devices             ? w.devices->make_group(r.members, r.name)
            : w.staging.bytes > 0 ? comm_->make_staged_group(r.members, r.name, r.lane, w.staging)
                                  : comm_->make_group(r.members, r.name, r.lane, r.pairs);
  }
}

/// Each lane of messages has links and a stream of its own. They are given to the device in the plan's order,
/// so even a device that runs its streams one after the other stops no sooner than plan/flow.h says. Those
/// that wait must leave it room to compute.
comm::DeviceComm* Rank::reach_stage(const MessageLane& messages) {
  constexpr int32_t kProcessors = 4;  // of some 100; at most 10 lanes
  if (!plans().peers) return nullptr;
  char* const end = sums_->data() + sums_->bytes();
  message_peers_.push_back(comm_->on_device({.device = &machine_.device(),
                                             .timeout_seconds = shared_.config.comm.timeout_seconds,
                                             .lane = messages.group.lane,
                                             .by_issuer = true,
                                             .first_byte = end - plans().device_message_bytes,
                                             .most_processors = kProcessors}));
  return message_peers_.back().get();
}

comm::HostStaging Rank::staging_of(plan::Lane lane) const {
  const PinnedBytes& pinned = plans().pinned;
  return {&machine_.device(), pinned_->data() + pinned.before_messages(lane),
          pinned.messages[static_cast<size_t>(lane)]};
}

void Rank::publish_weights() {
  device::Device& device = machine_.device();
  for (size_t i = 0; i < shared_.model.table().groups().size(); ++i) {
    const GroupState& s = executor_->state(static_cast<int32_t>(i));
    if (s.copy == nullptr || s.range.size() == 0) continue;
    device.kernels().convert(
        {s.copy, s.weights.data, compute_type(shared_.config), DType::kF32, s.range.size()},
        device.stream(device::StreamId::kCompute));
  }
  if (runtime_) runtime_->publish_weights(plans().any());
}

}  // namespace hawser::train
