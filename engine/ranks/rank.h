// Rank: one rank's share of an engine: its memory, process groups and executor, on its machine. What all
// ranks of a process share (model, plans, config) is in Shared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/assembly/engine_plans.h"
#include "engine/comm/comm.h"
#include "engine/config/resolved_config.h"
#include "engine/execute/agreed_error.h"
#include "engine/execute/executor.h"
#include "engine/parallel/compose.h"
#include "engine/ranks/machine.h"

namespace hawser::train {

class Rank {
 public:
  /// What all ranks of a process share. Outlives them.
  struct Shared {
    const nn::Model& model;
    const config::ResolvedConfig& config;
    const std::vector<EnginePlans>& stages;  ///< plans by stage of the pipeline
    const parallel::Strategies& strategies;
    bool inference = false;
    bool several_processes = false;  ///< the ranks of the world are in several processes
  };

  /// `comm` is null for a world of one rank. It and `machine` must outlive the rank. Call on the rank's own
  /// thread. Collective over the world, because it creates the rank's groups.
  /// `base`: the same rank of another engine, whose weights this one reads (base_engine.h), or null.
  Rank(const Shared& shared, int32_t rank, comm::RankComm* comm, Machine* machine,
       const Rank* base = nullptr);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int32_t number() const { return number_; }  ///< rank number in the world
  int64_t dp_rank() const { return dp_rank_; }
  /// Its stage of the pipeline.
  int64_t stage() const { return shared_.strategies.stage_of(number_); }
  /// The first rank of each stage.
  std::vector<int32_t> first_of_stages() const;
  const EnginePlans& plans() const { return shared_.stages[static_cast<size_t>(stage())]; }
  /// Whether no lower rank of its stage reads the same rows. Of the ranks that count rows, those of the first
  /// stage count tokens, and those that have the head losses.
  bool counts_rows() const { return shared_.strategies.counts_rows(number_); }
  comm::RankComm* comm() const { return comm_; }
  const parallel::DataParallelGroups& groups() const { return groups_; }
  /// The group of all ranks in a lane of its own, for saves beside training. Null if not needed or not
  /// available.
  comm::ProcessGroup* saves() const { return saves_.get(); }
  const nn::ParameterTable& table() const { return shared_.model.table(); }
  const parallel::ShardLayout& layout() const { return *layout_; }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  /// This rank's threads on the host.
  Stream& stream() { return machine_.host_stream(); }
  /// The link to the memory that the executor's pointers refer to.
  device::HostLink& link() const { return machine_.link(); }
  const parallel::OutsideArena& outside() const { return outside_; }
  const std::shared_ptr<device::Arena>& arena() const { return arena_; }
  /// Links between devices, and how many of them registered this rank's memory.
  comm::RegisteredLinks peer_links() const;
  /// The plan of a training step of `step_rows` rows, on all ranks.
  const plan::Plan& train_plan(int64_t step_rows) const {
    return plans().train_of(shared_.config.batch.micro_batches(step_rows));
  }
  /// First row of this rank in a step. Data-parallel ranks take consecutive runs of rows, in order.
  int64_t first_row(int64_t step_rows) const {
    const config::BatchConfig& batch = shared_.config.batch;
    return dp_rank_ * batch.micro_batches(step_rows) * batch.micro_batch;
  }
  /// Updates the compute weights on every rank after masters changed outside of a step.
  void publish_weights();
  /// Prepares the device for every matrix product and attention of the plans (rehearsal.h). Overwrites the
  /// arena and then restores its initial state, so call it before the arena holds data. Throws the device's
  /// errors.
  void rehearse();
  /// Runs all instructions of a plan, or only those before or after commit.
  void run(const plan::Plan& plan, Run* run) { executor_->run(plan, 0, plan.instructions.size(), run); }

 private:
  void make_groups();
  void make_exchanges(int64_t expert_calls);
  Executor::Model model_setup() const;
  Executor::Communication communication_setup();
  void reach_peers(const Rank* base);
  void name_peer_memory(const Rank* base);
  bool overlaps_instructions() const;
  comm::DeviceComm* devices_for(const parallel::GroupWish& wish);
  comm::DeviceComm* reach_stage(const comm::Lane& lane);
  comm::HostStaging staging_of(plan::Lane lane) const;
  void fill_rope_table();

  const Shared& shared_;
  int32_t number_;
  int64_t dp_rank_;
  comm::RankComm* comm_;
  parallel::DataParallelGroups groups_;
  std::unique_ptr<comm::ProcessGroup> saves_;
  std::unique_ptr<parallel::ShardLayout> layout_;
  Machine& machine_;
  std::shared_ptr<device::Arena> arena_;
  std::shared_ptr<device::Arena> pinned_;  // host side of copies, unless the device is worked on in place
  std::shared_ptr<device::Arena> sums_;    // device memory for sums over ranks, if the device makes them
  comm::PeerMemory peer_memory_;           // arena_, sums_ and a base engine's, if links can register all
  std::unique_ptr<comm::DeviceComm> peers_, block_peers_;  // for transfers, and for exchanges inside a block
  std::unique_ptr<comm::DeviceComm>
      overlapped_peers_;             // for exchanges while the other half of a pair computes
  std::optional<FiberPair> fibers_;  // of those halves
  std::vector<std::unique_ptr<comm::DeviceComm>> message_peers_;  // for messages, one for each lane
  std::unique_ptr<parallel::BucketRuntime> runtime_;
  parallel::OutsideArena outside_;
  std::optional<optim::Optimizer> optimizer_;  // none for inference
  parallel::BlockExchanges exchanges_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace hawser::train
