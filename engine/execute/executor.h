// Executor: runs a plan's instructions over the arena of one rank, with one switch. All decisions are in the
// plan. Transfers run in the background, and an instruction waits for those it needs, as the plan says
// (transfers_in_flight.h). slot_ledger.h tracks which slots are live. host_exchange.h handles the host and
// the other ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/device/arena.h"
#include "engine/device/host_link.h"
#include "engine/execute/expert_calls.h"
#include "engine/execute/host_exchange.h"
#include "engine/execute/run.h"
#include "engine/execute/slot_ledger.h"
#include "engine/execute/state_array.h"
#include "engine/execute/step_graphs.h"
#include "engine/execute/step_mirror.h"
#include "engine/execute/step_trace.h"
#include "engine/execute/transfers_in_flight.h"
#include "engine/nn/model.h"
#include "engine/nn/rope_table.h"
#include "engine/optim/optimizer.h"
#include "engine/parallel/block_exchanges.h"
#include "engine/parallel/bucket_runtime.h"
#include "engine/parallel/compose.h"
#include "engine/plan/plan.h"

namespace hawser::train {

/// State of one parameter group on this rank. Every pointer and array begins with element `range.begin`.
struct GroupState {
  mesh::FlatRange range;
  StateArray weights;       ///< what the optimizer updates: masters, or the weights if there are none
  StateArray copy;          ///< compute weights, if they are narrower than the masters; else none
  float* scales = nullptr;  ///< of weights in NF4, of the whole group
  std::array<StateArray, plan::kStateCount> states;  ///< of the optimizer, in the order of plan::kStates
};

/// A group whose weights are in another engine's memory (GroupLayout::borrowed), which does not change them.
struct BorrowedGroup {
  const char* weights = nullptr;  ///< the whole group, in the compute type; of stage 3 this rank's shard
  GroupState state;               ///< without arrays of the optimizer
};

class Executor {
 public:
  struct Model {
    const nn::Model* modules = nullptr;
    DType type = DType::kF32;
    DType residual_type = DType::kF32;  ///< type of the residual stream
    uint64_t seed = 0;
    nn::Fp8Operands fp8 = {};                        ///< how products round operands, without the arrays
    int64_t fp8_operands = 0;                        ///< operands whose scales follow from earlier maxima
    int64_t head_scores = 0;                         ///< heads whose largest scores steps note
    nn::CompressSet compress = {};                   ///< what blocks keep as records of fp8
    nn::RecomputeSet remakes = {};                   ///< what blocks do not keep
    int64_t rope_positions = 0;                      ///< of each rope table
    nn::LookupGradient::Sizes lookup_gradient = {};  ///< used if the loss reads the trained table
    ObjectiveSetup objective = {};                   ///< the executor sets `counts` and the groups
    kernels::Teacher teacher = {};                   ///< of training, without rows
    double ahead_weight = 0;                         ///< of the mean of the losses of prediction depths
  };
  /// The host's processor, for instructions of Lane::kHost.
  struct HostProcessor {
    const kernels::KernelTable* kernels = nullptr;
    Stream* stream = nullptr;  ///< of the rank's threads
  };
  struct Memory {
    device::HostLink* link = nullptr;  ///< link to the device that computes
    std::shared_ptr<device::Arena> arena;
    StepMirror mirror;
    const parallel::ShardLayout* layout = nullptr;
    std::vector<BorrowedGroup> borrowed = {};           ///< by group; empty if none is
    std::shared_ptr<device::Arena> borrowed_from = {};  ///< their memory
    const parallel::OutsideArena* outside = nullptr;    ///< what leaves the arena; outlives the executor
  };
  /// For instructions that overlap the next one; all null if no plan has any.
  struct Overlap {
    FiberPair* fibers = nullptr;        ///< runs the two instructions
    comm::DeviceComm* peers = nullptr;  ///< carries the overlapped exchanges between devices
  };
  struct Communication {
    comm::RankComm* rank = nullptr;  ///< null for one rank
    const parallel::Strategies* strategies = nullptr;
    const parallel::DataParallelGroups* groups = nullptr;
    parallel::BucketRuntime* runtime = nullptr;        ///< null for one rank
    const parallel::BlockExchanges* blocks = nullptr;  ///< what ranks exchange inside blocks
    ExpertCalls expert_calls = {};           ///< that the host remembers; none if it reaches the memory
    bool counts_rows = true;                 ///< no lower rank of the stage reads the same rows
    bool counts_tokens = true;               ///< the same, and it is of the first stage
    const comm::CallTrail* trail = nullptr;  ///< of the device's calls; null if hosts carry them out
    std::vector<int64_t> kinds = {};  ///< if there is a trail: of each rank; equal ones make equal calls
    comm::DeviceComm* devices =
        nullptr;  ///< inside blocks, in the compute stream; null if hosts carry them out
    Overlap overlap = {};
  };
  struct Setup {
    Model model;
    const optim::Optimizer* optimizer = nullptr;  ///< null for inference
    HostProcessor host = {};
    Memory memory;
    Communication communication;
  };
  /// All plans that run here share the persistent slots of `plan`.
  Executor(Setup setup, const plan::Plan& plan);

  /// Runs instructions [begin, end) and waits for every transfer, except those that cross the border if
  /// run->update_follows. Allocates nothing. After an exception no transfer is in flight and no slot is live.
  ///
  /// State that the gradient phase has fetched for the update phase stays in the arena until another run
  /// begins. If the state was dropped, the update phase fetches it again.
  void run(const plan::Plan& plan, size_t begin, size_t end, Run* run);
  /// Drops what the gradient phase has fetched for the update phase, if there is anything: waits for the
  /// transfers, whose errors no longer count, and ends the slots. Call when the step is discarded, and before
  /// state changes where it was fetched from.
  void drop_fetched();

  /// Passes the matrix products and attention of the plan to a kernel table that only prepares them
  /// (rehearsal.h). Uses no host data and no transfers, and leaves garbage in the arena. batch, seq, training
  /// and documents come from `run`.
  void rehearse(const plan::Plan& plan, const kernels::KernelTable& kernels, const Run& run);

  /// Records every run of its plan from now on; null stops. The trace must outlive the recording.
  void set_trace(StepTrace* trace) { trace_ = trace; }

  const GroupState& state(int32_t group) const { return state_[static_cast<size_t>(group)]; }
  /// The memory that they are in.
  const std::shared_ptr<device::Arena>& memory_of(int32_t group) const {
    return s_.memory.layout->group(group).borrowed ? s_.memory.borrowed_from : s_.memory.arena;
  }
  /// The weights of a group whose place never changes, as modules read them.
  const char* weights(int32_t group) const { return pointers_[static_cast<size_t>(group)].weights; }
  float* rope_table() const { return rope_table_; }
  /// Sets what the optimizer reads in the second half.
  void set_scalars(const kernels::OptimizerScalars& scalars) { host_->set_scalars(scalars); }
  /// The reduced gradients of elements state(group).range, after the first half of `plan`.
  StateArray gradients(const plan::Plan& plan, int32_t group) const;
  const SlotLedger& slots() const { return *slots_; }
  /// See SlotLedger::fill_new_slots. Results must not change.
  void fill_new_slots() { slots_->fill_new_slots(); }
  /// What routers counted in the last step (nn/moe/balance.h), over all ranks.
  const int64_t* tallies() const { return host_->tallies(); }
  /// Puts others in their place, before the second half of a step.
  void set_tallies(const int64_t* tallies) { host_->set_tallies(tallies); }
  /// Returns the rewards of the last step; zeros if the objective has none.
  optim::PairRewards rewards() const { return host_->rewards(); }
  /// Takes scales from the largest magnitudes of fp8 operands in earlier steps, which must stay where they
  /// are.
  void follow_fp8_maxima(const float* maxima) { host_->fp8_maxima().follow(maxima); }
  /// Returns those of the last step, over all ranks.
  const std::vector<float>& fp8_maxima() { return host_->fp8_maxima().values(); }
  /// The largest attention scores of the last step, over all ranks, by which its update phase clips.
  const std::vector<float>& head_scores() { return host_->head_scores().values(); }
  void set_head_scores(const std::vector<float>& scores) { host_->head_scores().set(scores); }
  const StepGraphs& graphs() const { return graphs_; }
  void free_graphs() { graphs_.free_all(); }

 private:
  void step(const plan::Plan& plan, size_t index, Run* run);
  void step_on_host(const plan::Plan& plan, size_t index);
  void step_pair(const plan::Plan& plan, size_t index, Run* run);
  bool captures(const plan::Plan& plan, StepGraphs::CapturedRange* range, Run* run);
  void run_segment(const plan::Plan& plan, StepGraphs::Segment* segment, Run* run);
  void execute(const plan::Plan& plan, size_t index, Run* run);
  void submit(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx, Run* run);
  void conclude(const plan::Plan& plan, const plan::Instruction& instruction, Run* run);
  bool begin(const plan::Plan& plan, size_t first);
  void fetch_again(const plan::Plan& plan);
  void end_transfers();
  void finish(const plan::Plan& plan, const plan::LaneMarks& transfers);
  void wait_for(const plan::Plan& plan, const plan::LaneMarks& transfers);
  void give_up(const plan::Plan& plan);
  void clear_gaps(const plan::Plan& plan, size_t index);

  const nn::Embedding& embedding() const { return s_.model.modules->embedding(); }
  void forward_block(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx,
                     const Run& run);
  void backward_block(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx);
  void recompute(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx);
  /// Returns what a block or the head reads: x, or the last sum of the block below.
  nn::StreamInput stream_of(const plan::Plan& plan, const plan::Instruction& instruction,
                            const nn::Context& ctx) const;
  nn::StreamGradient gradient_of(const plan::Plan& plan, const plan::Instruction& instruction) const;
  nn::BlockRegions regions_of(const plan::Plan& plan, const plan::Instruction& instruction) const;
  void join_head_gradient(const plan::Plan& plan, const plan::Instruction& instruction,
                          const nn::Context& ctx);
  void head(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx);
  void apply_objective(const plan::Plan& plan, const plan::Instruction& instruction, Run* run);
  void logits(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx,
              const Run& run);
  void hand_out_columns(const nn::Context& ctx, const Run& run, int64_t row, int64_t rows, float* own,
                        float* others);
  void change_state(const plan::Plan& plan, const plan::Instruction& instruction);
  void add_gradients(const plan::Plan& plan, const plan::Instruction& instruction);
  void add_sums(const plan::Plan& plan, const plan::Instruction& instruction);
  void add_squares(const plan::Plan& plan, const plan::Instruction& instruction);
  void optimizer_step(const plan::Plan& plan, const plan::Instruction& instruction);
  void add_momentum(const plan::Plan& plan, const plan::Instruction& instruction);
  void orthogonalise(const plan::Plan& plan, const plan::Instruction& instruction);
  void update_matrices(const plan::Plan& plan, const plan::Instruction& instruction);
  void balance(const plan::Plan& plan, const plan::Instruction& instruction);
  void round_gradients(const plan::Plan& plan, const plan::Instruction& instruction);
  int64_t reduced(const plan::Plan& plan, plan::SlotId slot, int32_t group) const;

  void bind_state(const plan::Plan& plan);
  void bind_gaps(int32_t group);
  void point_groups(const plan::Plan& plan, plan::SlotId slot);
  nn::Context context(const plan::Plan& plan, const plan::Instruction& instruction, const Run& run,
                      nn::Region* workspace);
  /// An embedding table that LOSS reads, too, has two gradients until JOIN_HEAD_GRAD. Returns that of the
  /// look-ups, or null.
  nn::LookupGradient* lookups() { return lookup_gradient_.rows() ? &lookup_gradient_ : nullptr; }
  const float* rope_of(const plan::Instruction& n) const {
    if (rope_table_ == nullptr) return nullptr;
    return rope_table_ +
           nn::rope_table_begin(s_.model.modules->config(), n.block - 1, s_.model.rope_positions);
  }
  /// The slot must be in the arena, or in host memory for an instruction of the host's processor.
  char* at(const plan::Plan& plan, plan::SlotId slot) const {
    if (slot < 0) return nullptr;
    const bool host = plan.slot(slot).space == plan::Space::kHost;
    return (host ? s_.memory.outside->host_memory : s_.memory.arena->data()) + plan.slot(slot).offset;
  }
  /// State at byte `offset` of a persistent slot, wherever the slot is; none for slot -1.
  StateArray state_in(const plan::Plan& plan, plan::SlotId slot, int64_t offset, DType type) const;
  int64_t own_weights(int32_t group) const;
  nn::Region region(const plan::Plan& plan, plan::SlotId slot) const {
    return slot < 0 ? nn::Region() : nn::Region(at(plan, slot), plan.slot(slot).bytes);
  }
  template <typename T>
  T* as(const plan::Plan& plan, plan::SlotId slot) const {
    return reinterpret_cast<T*>(at(plan, slot));
  }

  /// A gap between parameters of a group, or the padding of one: bytes of a block's gradient slot that no
  /// backward pass writes.
  struct Gap {
    int64_t begin, bytes;
  };

  Setup s_;
  std::vector<GroupState> state_;
  std::vector<nn::GroupPointers> pointers_;
  std::vector<std::vector<Gap>> gaps_;  // by block
  nn::LookupGradient lookup_gradient_;
  float* rope_table_ = nullptr;

  std::optional<SlotLedger> slots_;
  std::optional<HostExchange> host_;
  TransfersInFlight transfers_;
  // the plan whose gradient phase has fetched state that is now in the arena; null if there is none
  const plan::Plan* fetched_of_ = nullptr;
  StepGraphs graphs_;
  StepTrace* trace_ = nullptr;
  StepTrace* recording_ = nullptr;  // the trace, while its plan runs
  // kernels of this run: the setup's, or a profile that wraps them
  const kernels::KernelTable* kernels_ = nullptr;
  Stream* stream_ = nullptr;
};

}  // namespace hawser::train
