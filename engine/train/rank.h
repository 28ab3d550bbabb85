// Rank: one rank's share of an engine: its memory, its pool of threads, its process groups, its executor.
// What all ranks of a process share (model, plans, config) stands beside them in the trainer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/comm/comm.h"
#include "engine/config/resolved_config.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/mesh/mesh.h"
#include "engine/train/engine_plans.h"
#include "engine/train/executor.h"

namespace hawser::train {

class Rank {
 public:
  /// What all ranks of a process share; outlives them.
  struct Shared {
    const nn::Model& model;
    const config::ResolvedConfig& config;
    const kernels::KernelTable& kernels;
    const EnginePlans& plans;
    const optim::Optimizer& optimizer;
    mesh::DeviceMesh mesh;
    int32_t threads = 1;  ///< of each rank's pool
    bool inference = false;
  };

  /// `comm`: null for a world of one; outlives the rank. Called on the rank's own thread; makes its groups,
  /// so all ranks of the world are in it together.
  Rank(const Shared& shared, int32_t rank, comm::RankComm* comm);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int32_t number() const { return number_; }  ///< in the world
  int64_t dp_rank() const { return dp_rank_; }
  comm::RankComm* comm() const { return comm_; }
  const parallel::DataParallelGroups& groups() const { return groups_; }
  const parallel::ShardLayout& layout() const { return *layout_; }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  Stream& stream() { return pool_.stream(); }
  const std::shared_ptr<device::Arena>& arena() const { return arena_; }
  /// First row of this rank in a global batch: dp ranks take runs of rows, in order.
  int64_t first_row() const {
    return dp_rank_ * shared_.config.batch.grad_accum_steps * shared_.config.batch.micro_batch;
  }
  /// After masters changed outside of a step: compute weights follow, on every rank that has them.
  void publish_weights();
  /// Runs all instructions of a plan, or its half before or after commit.
  void run(const plan::Plan& plan, Run* run) { executor_->run(plan, 0, plan.instructions.size(), run); }

 private:
  void make_groups();

  const Shared& shared_;
  int32_t number_;
  int64_t dp_rank_;
  comm::RankComm* comm_;
  parallel::DataParallelGroups groups_;
  std::unique_ptr<parallel::ShardLayout> layout_;
  device::ThreadPool pool_;
  std::shared_ptr<device::Arena> arena_;
  std::unique_ptr<parallel::BucketRuntime> runtime_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace hawser::train
