#include "engine/ranks/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "engine/assembly/precision.h"
#include "engine/assembly/step_sizes.h"
#include "engine/comm/gate.h"
#include "engine/nn/rope_table.h"
#include "engine/ranks/borrowed_groups.h"
#include "engine/ranks/rehearsal.h"

namespace hawser::train {
namespace {

ObjectiveSetup objective_setup(const config::ResolvedConfig& c) {
  return {c.objective, c.batch.grad_accum_steps, c.batch.micro_batch};
}

}  // namespace

Rank::Rank(const Shared& shared, int32_t rank, comm::RankComm* comm, Machine* machine, const Rank* base)
    : shared_(shared),
      number_(rank),
      dp_rank_(shared.strategies.mesh().dp_rank(rank)),
      comm_(comm),
      machine_(*machine) {
  const parallel::DataParallelStrategy& strategy = plans().strategy;
  layout_ = std::make_unique<parallel::ShardLayout>(
      shared.model.table(),
      layout_options(shared.config, shared.strategies, strategy, rank, shared.inference));
  Executor::Setup setup;
  Executor::Memory& memory = setup.memory;
  if (base) memory.borrowed = borrow_groups(*base, table(), *layout_), memory.borrowed_from = base->arena();
  device::HostLink& link = machine_.link();
  const parallel::StepForm& form = shared.strategies.form();
  const parallel::PlannedStep planned = planned_step(plans(), form, link.in_place());
  const PinnedBytes& pinned = plans().pinned;
  arena_ = plans().peers ? device::Arena::create_for_peers(link.shared_device(), plans().arena_bytes)
                         : device::Arena::create(link.shared_device(), plans().arena_bytes);
  pinned_ = device::Arena::create_pinned(link.shared_device(), pinned.bytes());
  if (comm_) {
    if (plans().peers) reach_peers(base);
    make_groups();
    char* const between = pinned.transfers > 0 ? pinned_->data() + pinned.step : nullptr;
    make_exchanges(planned.expert_calls);
    runtime_ = std::make_unique<parallel::BucketRuntime>(*layout_, strategy, groups_, arena_->data(), &link,
                                                         between, lent_weights(memory.borrowed));
    for_each_plan(plans(), [&](const plan::Plan& plan) { runtime_->bind(plan); });
  }
  outside_ =
      shared.strategies.outside_arena(planned, link, pinned_->data() + pinned_->bytes() - pinned.offload);
  memory.link = &link, memory.arena = arena_, memory.layout = layout_.get(), memory.outside = &outside_;
  if (!link.in_place())
    memory.mirror = StepMirror(
        pinned_->data(), most_micro_batches(shared.config, form, shared.inference),
        shared.config.batch.micro_batch, shared.config.batch.sequence,
        micro_batch_form(shared.config, form.columns), noted_words(shared.config.model),
        Fp8Maxima::bytes(noted_fp8_operands(shared.config, shared.model.table()), !shared.inference));
  if (!shared.inference)
    setup.optimizer = &optimizer_.emplace(shared.model.table(), shared.config.optimizer,
                                          state_type(shared.config), shared.config.seed,
                                          [this](const nn::Parameter& p) { return layout_->share_of(p); });
  setup.host = {&machine_.host_kernels(), &machine_.host_stream()};
  setup.model = model_setup();
  setup.communication = communication_setup();
  executor_ = std::make_unique<Executor>(std::move(setup), plans().any());
  fill_rope_table();
}

Executor::Model Rank::model_setup() const {
  Executor::Model setup{&shared_.model, compute_type(shared_.config)};
  const parallel::StepForm& form = shared_.strategies.form();
  setup.residual_type = shared_.config.cuda.residual;
  setup.seed = philox_derive(shared_.config.seed, 2, 0);
  setup.fp8 = fp8_operands(shared_.config);
  setup.fp8_operands = noted_fp8_operands(shared_.config, shared_.model.table());
  if (!shared_.inference) setup.head_scores = noted_head_scores(shared_.config, shared_.model.table());
  setup.remakes = form.backward.remakes, setup.compress = form.backward.compress;
  setup.rope_positions = shared_.config.batch.sequence;
  if (!shared_.inference && shared_.model.trains_shared_table())
    setup.lookup_gradient = lookup_gradient_sizes(shared_.model, shared_.config, form);
  if (!shared_.inference) {
    setup.objective = objective_setup(shared_.config);
    setup.teacher = teacher_of(shared_.config);
    setup.ahead_weight = shared_.config.train.ahead_weight;
  }
  return setup;
}

Executor::Communication Rank::communication_setup() {
  Executor::Communication setup{comm_, &shared_.strategies, &groups_, runtime_.get(), &exchanges_};
  setup.expert_calls = ExpertCalls(plans().any(), shared_.strategies.form().expert_micro_batches);
  setup.counts_rows = counts_rows();
  setup.counts_tokens = counts_rows() && stage() == 0;
  setup.trail = peers_ ? &peers_->trail() : nullptr;
  for (int32_t r = 0; setup.trail != nullptr && r < comm_->world_size(); ++r)
    setup.kinds.push_back(shared_.strategies.kind_of_calls(r));
  setup.devices = block_peers_.get();
  if (fibers_) setup.overlap = {&*fibers_, overlapped_peers_.get()};
  return setup;
}

/// Device work may still be running, so it is awaited before its memory is freed. Its errors are ignored.
Rank::~Rank() {
  if (executor_) executor_->free_graphs();
  for (auto& messages : groups_.stages) messages.reset();
  message_peers_.clear();
  peers_.reset();
  block_peers_.reset();
  overlapped_peers_.reset();
  (void)machine_.device().synchronize(device::StreamId::kCompute);
}

std::vector<int32_t> Rank::first_of_stages() const {
  std::vector<int32_t> ranks;
  for (int64_t s = 0; s < shared_.strategies.stages(); ++s)
    ranks.push_back(static_cast<int32_t>(shared_.strategies.first_of_stage(s)));
  return ranks;
}

void Rank::make_exchanges(int64_t expert_calls) {
  const PinnedBytes& pinned = plans().pinned;
  device::HostLink* const link = &machine_.link();
  char* const staging = pinned.exchange > 0 ? pinned_->data() + pinned.before_exchange() : nullptr;
  char* const counts = pinned.counts > 0 ? pinned_->data() + pinned.step + pinned.transfers : nullptr;
  const auto make_wire = [&](mesh::Axis axis) -> std::unique_ptr<parallel::BlockWire> {
    comm::ProcessGroup* const group = groups_.of_block(axis);
    if (group == nullptr) return nullptr;
    if (plans().peers) return std::make_unique<parallel::DeviceWire>(group, link);
    return std::make_unique<parallel::GroupWire>(group, link, staging);
  };
  exchanges_ =
      shared_.strategies.exchanges(make_wire, shared_.strategies.expert_host(link, counts, expert_calls));
  if (overlaps_instructions()) exchanges_.overlapped()->overlap_with(&fibers_.emplace());
}

/// Collects the arenas that calls between devices access; they access no other memory.
void Rank::name_peer_memory(const Rank* base) {
  std::vector<const device::Arena*> arenas = {arena_.get(), sums_.get()};
  if (base) arenas.push_back(base->arena().get());
  for (const device::Arena* arena : arenas) {
    if (arena->bytes() == 0) continue;
    peer_memory_.ranges.push_back({arena->data(), arena->bytes()});
    if (!arena->is_for_peers() && peer_memory_.without.empty())
      peer_memory_.without = arena->without_peers().empty() ? "the weights are in an arena of another engine"
                                                            : arena->without_peers();
  }
  if (!peer_memory_.without.empty()) peer_memory_.ranges.clear();
}

comm::RegisteredLinks Rank::peer_links() const {
  comm::RegisteredLinks sum;
  const auto add = [&](const std::unique_ptr<comm::DeviceComm>& peers) {
    if (peers == nullptr) return;
    const comm::RegisteredLinks& own = peers->registered();
    sum.links += own.links, sum.registered += own.registered;
    if (sum.without.empty()) sum.without = own.without;
  };
  add(peers_), add(block_peers_), add(overlapped_peers_);
  for (const auto& messages : message_peers_) add(messages);
  return sum;
}

void Rank::reach_peers(const Rank* base) {
  const std::shared_ptr<device::Device>& device = machine_.link().shared_device();
  sums_ = device::Arena::create_for_peers(device, plans().device_transport_bytes);
  name_peer_memory(base);
  const int64_t exchange = plans().device_exchange_bytes;
  const int64_t transfers = sums_->bytes() - exchange - plans().device_message_bytes;
  comm::DeviceUse use;
  use.device = device.get();
  use.timeout_seconds = shared_.config.comm.timeout_seconds;
  use.memory = &peer_memory_;
  use.staging = sums_->data(), use.staging_bytes = transfers;
  peers_ = comm_->on_device(use);
  if (!shared_.strategies.form().shares_blocks) return;
  use.staging = sums_->data() + transfers, use.staging_bytes = exchange;
  use.lane = parallel::block_lane(shared_.strategies.form().sums_in_chunks), use.by_issuer = true;
  block_peers_ = comm_->on_device(use);
  if (!overlaps_instructions()) return;
  use.lane = parallel::overlapped_lane(), use.by_issuer = false;
  overlapped_peers_ = comm_->on_device(use);
}

/// True if two instructions can overlap. All ranks return the same, because they must make the same lanes.
bool Rank::overlaps_instructions() const {
  return !shared_.inference && shared_.strategies.form().overlaps_instructions;
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
  using enum parallel::GroupWish::Over;
  std::vector<int32_t> everyone(static_cast<size_t>(comm_->world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  parallel::RankPlace place{*layout_, number_, !shared_.inference, plans().peers};
  for_each_plan(plans(), [&](const plan::Plan& plan) { place.plans.push_back(&plan); });
  std::vector<parallel::GroupWish> wishes = shared_.strategies.groups(place, &groups_);
  wishes.insert(wishes.begin(), {&groups_.dp, {everyone, "dp", {}, comm::LinkTopology::kTree}});
  // Savers wait for slow disks, so their group has no deadline. The death of a rank still ends the wait.
  if (shared_.several_processes && !shared_.inference && comm_->has_lanes())
    wishes.push_back(
        {&saves_, {everyone, "saves", {"saves", false, comm::kNoDeadline}, comm::LinkTopology::kTree}});
  std::vector<comm::GroupRequest> requests;
  for (const parallel::GroupWish& w : wishes) requests.push_back(w.request);
  comm_->expect(requests);
  for (const parallel::GroupWish& w : wishes) {
    const comm::GroupRequest& r = w.request;
    const comm::HostStaging staging = w.over == kMessages ? staging_of(w.lane) : comm::HostStaging();
    comm::DeviceComm* const devices = devices_for(w);
    *w.to = devices             ? devices->make_group(r.members, r.name)
            : staging.bytes > 0 ? comm_->make_staged_group(r.members, r.name, r.lane, staging)
                                : comm_->make_group(r.members, r.name, r.lane, r.pairs);
  }
}

/// Null: the hosts' memory.
comm::DeviceComm* Rank::devices_for(const parallel::GroupWish& wish) {
  using enum parallel::GroupWish::Over;
  switch (wish.over) {
    case kHosts:
      break;
    case kTransfers:
      return peers_.get();
    case kBlocks:
      return block_peers_.get();
    case kOverlapped:
      return overlapped_peers_.get();
    case kMessages:
      return reach_stage(wish.request.lane);
  }
  return nullptr;
}

/// Each lane of messages has links and a stream of its own. They are given to the device in the plan's order,
/// so even a device that runs its streams one after the other stops no sooner than plan/deadlock.h says.
/// Those that wait must leave it room to compute.
comm::DeviceComm* Rank::reach_stage(const comm::Lane& lane) {
  constexpr int32_t kProcessors = 4;  // of some 100; at most 10 lanes
  if (!plans().peers) return nullptr;
  char* const end = sums_->data() + sums_->bytes();
  message_peers_.push_back(comm_->on_device({.device = &machine_.device(),
                                             .timeout_seconds = shared_.config.comm.timeout_seconds,
                                             .lane = lane,
                                             .by_issuer = true,
                                             .first_byte = end - plans().device_message_bytes,
                                             .most_processors = kProcessors,
                                             .memory = &peer_memory_}));
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
    if (!s.copy || s.range.size() == 0) continue;
    if (s.weights.outside != nullptr || s.copy.outside != nullptr) {
      copy_values(link(), s.copy, s.weights, s.range.size());
      continue;
    }
    Stream& stream = device.stream(device::StreamId::kCompute);
    if (is_int_block(s.copy.type))
      device.kernels().block_encode({s.copy.data, s.copy.type, s.weights.data, DType::kF32, s.range.size()},
                                    stream);
    else
      device.kernels().convert({s.copy.data, s.weights.data, s.copy.type, DType::kF32, s.range.size()},
                               stream);
  }
  Run publishing;
  if (!plans().publish.instructions.empty()) run(plans().publish, &publishing);
}

}  // namespace hawser::train
