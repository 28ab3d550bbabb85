// Rank: one rank's share of an engine: its memory, its process groups, its executor, on its machine.
// What all ranks of a process share (model, plans, config) stands beside them in the trainer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/comm/comm.h"
#include "engine/config/resolved_config.h"
#include "engine/mesh/mesh.h"
#include "engine/train/assembly/engine_plans.h"
#include "engine/train/ranks/agreed_error.h"
#include "engine/train/ranks/machine.h"
#include "engine/train/step/executor.h"

namespace hawser::train {

class Rank {
 public:
  /// What all ranks of a process share; outlives them.
  struct Shared {
    const nn::Model& model;
    const config::ResolvedConfig& config;
    const EnginePlans& plans;
    const optim::Optimizer& optimizer;
    mesh::DeviceMesh mesh;
    bool inference = false;
    bool several_processes = false;  ///< hold the ranks of the world
  };

  /// `comm`: null for a world of one; it and `machine` outlive the rank. Called on the rank's own thread;
  /// makes its groups, so all ranks of the world are in it together.
  Rank(const Shared& shared, int32_t rank, comm::RankComm* comm, Machine* machine);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int32_t number() const { return number_; }  ///< in the world
  int64_t dp_rank() const { return dp_rank_; }
  comm::RankComm* comm() const { return comm_; }
  const parallel::DataParallelGroups& groups() const { return groups_; }
  /// All ranks, in a lane of their own, for saves beside training; null where none is needed, or to be had.
  comm::ProcessGroup* saves() const { return saves_.get(); }
  const parallel::ShardLayout& layout() const { return *layout_; }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  /// The host's threads of this rank.
  Stream& stream() { return machine_.host_stream(); }
  /// To what the executor's pointers lead.
  device::HostLink& link() const { return machine_.link(); }
  const std::shared_ptr<device::Arena>& arena() const { return arena_; }
  /// First row of this rank in a global batch: dp ranks take runs of rows, in order.
  int64_t first_row() const {
    return dp_rank_ * shared_.config.batch.grad_accum_steps * shared_.config.batch.micro_batch;
  }
  /// After masters changed outside of a step: compute weights follow, on every rank that has them.
  void publish_weights();
  /// Shows the device every product and attention of the plans (rehearsal.h), and leaves the arena as it was
  /// made. Throws what the device has to say. Before anything is in the arena.
  void rehearse();
  /// Runs all instructions of a plan, or its half before or after commit.
  void run(const plan::Plan& plan, Run* run) { executor_->run(plan, 0, plan.instructions.size(), run); }

 private:
  void make_groups();
  void reach_peers();
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
  std::shared_ptr<device::Arena> pinned_;  // the host's side, where the device is not worked on in place
  std::shared_ptr<device::Arena> sums_;    // of the device, for sums over ranks that it reaches itself
  std::unique_ptr<comm::DeviceComm> peers_;
  std::unique_ptr<parallel::BucketRuntime> runtime_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace hawser::train
