// Executor: runs a plan's instructions over the arena of one rank: one switch. It decides nothing; the plan
// did. What the communication stream does is started and goes on beside what follows; an instruction that
// needs it waits for it, as the plan says. What the host reads or writes of the arena goes over a HostLink.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "engine/base/error.h"
#include "engine/device/arena.h"
#include "engine/device/host_link.h"
#include "engine/nn/model.h"
#include "engine/optim/grad_norm.h"
#include "engine/optim/optimizer.h"
#include "engine/parallel/bucket_runtime.h"
#include "engine/plan/plan.h"
#include "engine/train/step/state_array.h"
#include "engine/train/step/step_graphs.h"
#include "engine/train/step/step_staging.h"
#include "engine/train/step/step_trace.h"

namespace hawser::train {

/// Fills micro-batches of one rank. Allocates nothing.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual void load(int32_t micro_batch, const MicroBatch& out) = 0;
};

/// State of one parameter group on this rank, in device memory; every pointer is that of element
/// `range.begin`.
struct GroupState {
  mesh::FlatRange range;
  StateArray weights;    ///< what the optimizer steps: masters, or weights where these have none
  void* copy = nullptr;  ///< weights where they are narrower than masters; else null
  StateArray moment1, moment2;
};

/// An error that all ranks of the world throw together: they stay in touch.
class AgreedError : public Error {
 public:
  using Error::Error;
  explicit AgreedError(const Error& error) : Error(error) {}
};

/// One execution: what goes in beside the plan, and what comes out.
struct Run {
  BatchSource* source = nullptr;
  int64_t batch = 0, seq = 0;  ///< of each micro-batch; at most the planned sizes
  bool training = false;
  bool documents = false;   ///< kv_begin matters
  bool cancelled = false;   ///< in: here; out: on any rank (training only)
  float* logits = nullptr;  ///< kLogits: where they go; in generation those of the last row only
  int64_t cached = -1;      ///< generation: positions in the caches already; -1: no caches
  // Results.
  int64_t tokens = 0;  ///< adds up unmasked targets: training, of all ranks; evaluation, of this one
  ExactSum losses;     ///< evaluation: of this rank
  double loss_sum = 0, grad_norm = 0;  ///< training: of all ranks
};

class Executor {
 public:
  struct Setup {
    const nn::Model* model = nullptr;
    const optim::Optimizer* optimizer = nullptr;  ///< null for inference
    device::HostLink* link = nullptr;             ///< to the device that computes
    std::shared_ptr<device::Arena> arena;
    StepStaging staging;
    DType type = DType::kF32;
    uint64_t seed = 0;
    const parallel::ShardLayout* layout = nullptr;
    const parallel::DataParallelGroups* groups = nullptr;
    parallel::BucketRuntime* runtime = nullptr;  ///< null for one rank
    nn::LookupGradient::Sizes lookup_gradient;   ///< if the head is tied and trained
    bool counts_norm = true;                     ///< the norm counts this rank's share, and no equal one
    bool graphs = false;                         ///< the device captures, and may
  };
  /// All plans run here share their persistent slots with `plan`.
  Executor(Setup setup, const plan::Plan& plan);

  /// Runs instructions [begin, end) and waits for every transfer. Allocates nothing. After a throw nothing is
  /// in flight and no slot is live.
  void run(const plan::Plan& plan, size_t begin, size_t end, Run* run);

  /// Gives the products and attention of the plan, as a run would, to a table that only prepares them
  /// (rehearsal.h). No host data, no transfers; what stands in the arena afterwards is of no worth. batch,
  /// seq, training and documents are the run's.
  void rehearse(const plan::Plan& plan, const kernels::KernelTable& kernels, const Run& run);

  /// Records every run of its plan from now on; null: no more. It must outlive the recording.
  void set_trace(StepTrace* trace) { trace_ = trace; }

  const GroupState& state(int32_t group) const { return state_[static_cast<size_t>(group)]; }
  float* rope_table() const { return rope_table_; }
  /// What the optimizer reads in the second half.
  void set_scalars(const kernels::OptimizerScalars& scalars);
  /// Reduced gradients of the group's elements state(group).range, after the first half of `plan`.
  StateArray gradients(const plan::Plan& plan, int32_t group) const;
  /// End of the highest slot ever live, and live bytes by category when they were most: equal to the plan's.
  int64_t high_water() const { return high_water_; }
  const plan::MemoryByCategory& live_at_peak() const { return live_at_peak_; }
  const StepGraphs& graphs() const { return graphs_; }

 private:
  void step(const plan::Plan& plan, size_t index, Run* run);
  void run_segment(const plan::Plan& plan, StepGraphs::Segment* segment, Run* run);
  void compute(const plan::Plan& plan, size_t index, Run* run);
  void execute(const plan::Plan& plan, const plan::Instruction& instruction, Run* run);
  void conclude(const plan::Plan& plan, const plan::Instruction& instruction, Run* run);
  void load(const plan::Plan& plan, const plan::Instruction& instruction, Run* run);
  void count_tokens(Run* run);
  void fail_together(comm::ProcessGroup* dp);
  void forward(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx,
               const Run& run);
  void backward(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx);
  void loss(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx);
  void head(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx);
  void sum_losses(ExactSum* sum);
  void logits(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx,
              const Run& run);
  void grad_norm(const plan::Plan& plan, const plan::Instruction& instruction, Run* run);
  void optimizer_step(const plan::Plan& plan, const plan::Instruction& instruction);
  void round_gradients(const plan::Plan& plan, const plan::Instruction& instruction);
  StateArray reduced(const plan::Plan& plan, plan::SlotId slot, int32_t group) const;

  void bind_state(const plan::Plan& plan);
  void point_groups(const plan::Plan& plan, plan::SlotId slot);
  nn::Context context(const plan::Plan& plan, const plan::Instruction& instruction, const Run& run,
                      nn::Region* workspace);
  /// A table that the head shares has two gradients until JOIN_HEAD_GRAD.
  bool looks_up() const { return lookup_gradient_.rows() != nullptr; }
  char* at(const plan::Plan& plan, plan::SlotId slot) const;
  template <typename T>
  T* as(const plan::Plan& plan, plan::SlotId slot) const {
    return reinterpret_cast<T*>(at(plan, slot));
  }
  void wait_for(const plan::Plan& plan, int32_t transfer);
  void finish_transfers(const plan::Plan& plan);
  void acquire_slots(const plan::Plan& plan, size_t index);
  void release_slots(const plan::Plan& plan, size_t index);
  void acquire(const plan::Plan& plan, const plan::Slot& slot);
  void clear_gaps(const plan::Plan& plan, size_t index);
  void release(const plan::Plan& plan, plan::SlotId id);
  void close(const plan::Slot& slot);
  void give_up(const plan::Plan& plan);

  /// A gap between parameters of a group: bytes of a block's gradient slot that no backward writes.
  struct Gap {
    int64_t begin, bytes;
  };

  Setup s_;
  std::vector<GroupState> state_;
  std::vector<nn::GroupPointers> pointers_;
  std::vector<std::vector<Gap>> gaps_;  // by block
  nn::LookupGradient lookup_gradient_;
  float* rope_table_ = nullptr;
  StepScalars* scalars_ = nullptr;
  StepSums* sums_ = nullptr;
  StepScalars* host_scalars_ = nullptr;  // the host's side of them
  StepSums* host_sums_ = nullptr;

  struct Losses {
    const float* values;
    int64_t count;
  };
  std::vector<Losses> fetched_losses_;     // not yet summed
  std::vector<comm::Work> works_;          // of transfers in flight, by instruction
  comm::Work newest_;                      // of the run
  std::vector<plan::SlotId> draining_;     // given back, but still used by a transfer
  int32_t done_ = -1;                      // the newest transfer that the compute stream comes after
  int32_t started_ = -1;                   // the newest transfer
  int32_t acquired_ = -1, released_ = -1;  // the newest instructions whose slots were
  std::vector<int64_t> documents_;         // in each micro-batch; 0: not counted
  std::vector<int64_t> agreement_;         // what COUNT_TOKENS sums over ranks
  std::exception_ptr load_error_;
  StepTrace* trace_ = nullptr;
  StepTrace* recording_ = nullptr;                 // the trace, while what runs is its plan
  const kernels::KernelTable* kernels_ = nullptr;  // of the run: the setup's, or a profile around them
  Stream* stream_ = nullptr;
  StepGraphs graphs_;
  plan::MemoryByCategory live_{}, live_at_peak_{};
  int64_t live_bytes_ = 0, most_live_ = 0, high_water_ = 0;
};

}  // namespace hawser::train
