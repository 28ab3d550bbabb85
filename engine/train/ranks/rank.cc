#include "engine/train/ranks/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "engine/comm/gate.h"
#include "engine/nn/rope_table.h"
#include "engine/train/step/rehearsal.h"

namespace hawser::train {
namespace {

std::vector<int32_t> to_ranks(const std::vector<int64_t>& ranks) {
  return std::vector<int32_t>(ranks.begin(), ranks.end());
}

/// Over the hosts its calls run at once, because a block waits for each.
const comm::Lane kBlockLane{.name = "block", .at_once = true};

/// The lanes of messages between stages that a rank's plans use.
std::set<plan::Lane> used_lanes(const EnginePlans& plans) {
  std::set<plan::Lane> lanes;
  for (const plan::Plan* plan : {&plans.train, &plans.eval, &plans.logits, &plans.generate})
    for (const plan::Instruction& n : plan->instructions)
      if (plan::is_message(n.op)) lanes.insert(n.lane);
  return lanes;
}

/// The two ranks of a lane of messages, ascending, and its name, which is that of who sends.
struct Message {
  std::vector<int32_t> members;
  std::string name;
};

Message message_of(const mesh::DeviceMesh& mesh, int32_t rank, plan::Lane lane) {
  using enum plan::Lane;
  if (lane == kTable || lane == kTableGradient) {
    const int64_t last = mesh.degree(mesh::Axis::kPp) - 1;
    return {to_ranks({mesh.at(rank, mesh::Axis::kPp, 0), mesh.at(rank, mesh::Axis::kPp, last)}),
            plan::lane_name(lane)};
  }
  const bool to = lane == kXToNext || lane == kXToPrevious || lane == kDxToNext || lane == kDxToPrevious;
  const bool x = lane == kXToNext || lane == kXToPrevious || lane == kXFromNext || lane == kXFromPrevious;
  const bool with_next = lane == kXToNext || lane == kXFromNext || lane == kDxToNext || lane == kDxFromNext;
  const int64_t stages = mesh.degree(mesh::Axis::kPp), own = mesh.coordinate(rank, mesh::Axis::kPp);
  const int64_t other = (own + (with_next ? 1 : stages - 1)) % stages;
  const auto there = static_cast<int32_t>(mesh.at(rank, mesh::Axis::kPp, other));
  const bool forth = with_next == to;  // from a stage to its next
  return {{std::min(rank, there), std::max(rank, there)},
          fmt::format("{}_{}.{}", x ? "x" : "dx", forth ? "down" : "up", to ? own : other)};
}

}  // namespace

Rank::Rank(const Shared& shared, int32_t rank, comm::RankComm* comm, Machine* machine)
    : shared_(shared), number_(rank), dp_rank_(shared.mesh.dp_rank(rank)), comm_(comm), machine_(*machine) {
  const parallel::DataParallel& strategy = plans().strategy;
  layout_ = std::make_unique<parallel::ShardLayout>(
      shared.model.table(), layout_options(shared.config, strategy, rank, shared.inference));
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
                                                         between);
    for (const plan::Plan* plan : {&plans().train, &plans().eval, &plans().logits, &plans().generate})
      runtime_->bind(*plan);
  }
  Executor::Setup setup;
  setup.model = &shared.model;
  if (!shared.inference)
    setup.optimizer = &optimizer_.emplace(shared.model.table(), shared.config.optimizer,
                                          state_type(shared.config), shared.config.seed,
                                          [this](const nn::Parameter& p) { return layout_->share_of(p); });
  setup.link = &link;
  setup.arena = arena_;
  if (!link.in_place())
    setup.mirror =
        StepMirror(pinned_->data(), shared.inference ? 1 : shared.config.batch.grad_accum_steps,
                   shared.config.batch.micro_batch, shared.config.batch.sequence,
                   {shared.mesh.degree(mesh::Axis::kCp), 0}, nn::all_tally_words(shared.config.model));
  setup.type = compute_type(shared.config);
  setup.seed = philox_derive(shared.config.seed, 2, 0);
  setup.layout = layout_.get();
  setup.groups = &groups_;
  if (exchange_) setup.exchange = exchange_.get(), setup.cached_exchange = cached_exchange_.get();
  setup.sequence_parallel = shared.config.mesh.sequence_parallel;
  if (columns_) setup.columns = columns_.get();
  setup.context_mode = shared.config.mesh.cp_mode;
  setup.counts_rows = counts_rows();
  setup.counts_tokens = counts_rows() && stage() == 0;
  setup.trail = peers_ ? &peers_->trail() : nullptr;
  setup.runtime = runtime_.get();
  if (!shared.inference && shared.model.trains_tied_head())
    setup.lookup_gradient = lookup_gradient_sizes(shared.model, shared.config);
  setup.exchanges = block_peers_.get();
  setup.graphs = shared.config.cuda.graphs && machine_.device().info().captures;
  if ((exchange_ || columns_) && !block_peers_)
    setup.no_graphs = "exchanges inside blocks go through the host, which takes no part in a graph";
  executor_ = std::make_unique<Executor>(std::move(setup), plans().any());
  fill_rope_table();
}

/// Device work may still be running, so it is awaited before its memory is freed. Its errors are ignored.
Rank::~Rank() {
  peers_.reset();
  block_peers_.reset();
  (void)machine_.device().synchronize(device::StreamId::kCompute);
}

void Rank::make_exchanges() {
  const PinnedBytes& pinned = plans().pinned;
  char* const staging = pinned.exchange > 0 ? pinned_->data() + pinned.step + pinned.transfers : nullptr;
  const auto wire_of = [&](comm::ProcessGroup* group) -> std::unique_ptr<parallel::BlockWire> {
    if (block_peers_) return std::make_unique<parallel::DeviceWire>(group);
    return std::make_unique<parallel::GroupWire>(group, &machine_.link(), staging);
  };
  if (groups_.cp) {
    column_wire_ = wire_of(groups_.cp.get());
    columns_ = parallel::make_column_exchange(shared_.config.mesh.cp_mode, column_wire_.get());
  }
  if (!groups_.tp) return;
  wire_ = wire_of(groups_.tp.get());
  exchange_ = parallel::make_exchange(shared_.config.mesh.sequence_parallel, wire_.get());
  cached_exchange_ = parallel::make_exchange(false, wire_.get());
}

void Rank::reach_peers() {
  const std::shared_ptr<device::Device>& device = machine_.link().shared_device();
  sums_ = device::Arena::create(device, plans().device_transport_bytes);
  const int64_t exchange = plans().device_exchange_bytes, transfers = sums_->bytes() - exchange;
  comm::DeviceUse use;
  use.device = device.get();
  use.timeout_seconds = shared_.config.comm.timeout_seconds;
  use.staging = sums_->data(), use.staging_bytes = transfers;
  peers_ = comm_->on_device(use);
  if (shared_.mesh.degree(mesh::Axis::kTp) * shared_.mesh.degree(mesh::Axis::kCp) == 1) return;
  use.staging = sums_->data() + transfers, use.staging_bytes = exchange;
  use.lane = kBlockLane, use.by_issuer = true;
  block_peers_ = comm_->on_device(use);
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
    comm::DeviceComm* devices;  ///< null: the hosts' memory
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
  for (const parallel::ModelSum& sum : layout_->model_sums()) {
    const bool of_tp = sum.op == plan::Op::kReduceTp;
    want(of_tp ? groups_.tp_sums : groups_.kv_sums, sum.axes, of_tp ? "tp_sums" : "kv_sums", kAll);
  }
  for (const auto& [to, axis, name] : {std::tuple{&groups_.tp, kTp, "tp"}, {&groups_.cp, kCp, "cp"}}) {
    if (shared_.mesh.degree(axis) == 1) continue;
    want(*to, {axis}, name, kAll, kBlockLane);
    wanted.back().devices = block_peers_.get();
  }
  if (shared_.mesh.degree(kCp) > 1 && block_peers_) want(groups_.cp_hosts, {kCp}, "cp (hosts)", kTree);
  std::set<plan::Lane> lanes = used_lanes(plans());
  const parallel::GroupLayout& table = layout_->group(layout_->table().group);
  if (layout_->table_travels() && table.here) lanes.insert(plan::Lane::kTable);  // to publish weights
  for (const plan::Lane lane : lanes) {
    const Message m = message_of(shared_.mesh, number_, lane);
    requests.push_back({m.members, m.name, {.name = m.name, .sums = false}, kAll});
    wanted.push_back({&groups_.stages[static_cast<size_t>(lane)], nullptr});
  }
  if (!layout.secondary_axes().empty()) want(groups_.secondary, layout.secondary_axes(), "secondary", kAll);
  // Savers wait for slow disks, so their group has no deadline. The death of a rank still ends the wait.
  if (shared_.several_processes && !shared_.inference && comm_->has_lanes())
    want(saves_, everyone, "saves", kTree, {"saves", false, comm::kNoDeadline});
  comm_->expect(requests);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const comm::GroupRequest& r = requests[i];
    *wanted[i].to = wanted[i].devices ? wanted[i].devices->make_group(r.members, r.name)
                                      : comm_->make_group(r.members, r.name, r.lane, r.pairs);
  }
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
