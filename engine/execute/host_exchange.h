// HostExchange: what a step exchanges with the host and with other ranks. Micro-batches and scalars go in.
// Token counts, losses and the gradient norm come out, summed over all ranks. Data moves to and from the
// arena over a HostLink.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "engine/comm/process_group.h"
#include "engine/device/host_link.h"
#include "engine/execute/pair_objective.h"
#include "engine/execute/run.h"
#include "engine/execute/step_mirror.h"
#include "engine/nn/lookup_gradient.h"
#include "engine/plan/plan.h"

namespace hawser::comm {
class CallTrail;
}

namespace hawser::train {

class HostExchange {
 public:
  struct Setup {
    device::HostLink* link = nullptr;
    StepMirror mirror;
    const comm::CallTrail* trail = nullptr;  ///< of the device's calls; null: hosts carry them out
    comm::ProcessGroup* dp = nullptr;        ///< ranks that share the global batch; null for one rank
    nn::LookupGradient* lookups = nullptr;   ///< null unless a trained head shares the embedding table
    std::vector<int64_t> kinds = {};         ///< by member of `dp`: those of one kind make the same calls
    nn::LocalColumns own = {};               ///< of each row, in runs that divide columns
    comm::ProcessGroup* cp = nullptr;        ///< ranks that have its other columns; null if there are none
    comm::ProcessGroup* tp = nullptr;        ///< ranks that compute a block of them together; the same
    bool counts_rows = true;    ///< this rank counts losses of its rows; others may read the same ones
    bool counts_tokens = true;  ///< this rank counts their tokens
    int32_t padding_token = -1;
    int64_t tally_words = 0;                      ///< that routers count
    const PairObjective::Setup* pairs = nullptr;  ///< null: not an objective over pairs
    bool scores = false;                          ///< the model ends in a score
    StepScalars* scalars = nullptr;               ///< the device's
    StepSums* sums = nullptr;                     ///< the device's
  };
  explicit HostExchange(const Setup& setup);

  /// Call before a run of `plan`. The calls below allocate nothing.
  void begin(const plan::Plan& plan);

  // The following are in the order of a step.

  /// LOAD_MICRO_BATCH: fills `slot` of the arena. An error in the data is kept until COUNT_TOKENS, where all
  /// ranks learn of it together.
  void load(int32_t micro_batch, char* slot, Run* run);
  /// COUNT_TOKENS: sums over ranks what LOAD_MICRO_BATCH counted. Throws on all ranks if one could not load,
  /// or if its device was given other calls than the others' since the start.
  void count_tokens(Run* run);
  /// LOGPROBS, LOSS, EVAL_LOSS: copies the losses to the host once the device has computed them.
  void fetch_losses(int32_t micro_batch, float* losses, int64_t count);
  /// OBJECTIVE: puts weights into the micro-batch. Does nothing where the host has set them.
  void weigh(int32_t micro_batch, float* losses, char* slot, Run* run);
  /// Adds the losses to the run. In training agree_on_norm does this later, so that the host need not wait
  /// here, unless the device works in place and would overwrite them first.
  void note_losses(int32_t micro_batch, float* losses, Run* run);
  /// The last GRAD_NORM: sums the squares of gradients, and the losses, over all ranks.
  void agree_on_norm(Run* run);

  /// What the routers of all ranks counted in this step, after agree_on_norm.
  const int64_t* tallies() const { return tallies_of(host_sums_); }
  void set_tallies(const int64_t* tallies);

  /// Of the last step's pairs.
  optim::PairRewards rewards() const { return pairs_ ? pairs_->rewards() : optim::PairRewards(); }

  /// Whether it is true on all ranks that compute a block together. They run the same shapes; in an
  /// evaluation others may have fewer rows.
  bool agree(bool here) const;

  /// Sets what the optimizer reads in the second half.
  void set_scalars(const kernels::OptimizerScalars& scalars);
  StepScalars* scalars() const { return s_.scalars; }
  StepSums* sums() const { return s_.sums; }
  /// Documents in the micro-batch; 0 if they are not counted.
  int64_t documents(int32_t micro_batch) const;
  /// Assumes this many documents in every micro-batch of the plan.
  void assume_documents(const plan::Plan& plan, int64_t documents);

 private:
  nn::LocalColumns own_columns(const Run& run) const { return run.cached >= 0 ? nn::LocalColumns() : s_.own; }
  void hand_out(const float* losses, const Run& run) const;
  void compare_device_calls();
  void fail_together();
  void sum_losses(ExactSum* sum);

  struct Losses {
    const float* values;
    int64_t count;
  };
  Setup s_;
  StepScalars* host_scalars_;  // their copy on the host
  StepSums* host_sums_;
  std::vector<Losses> fetched_;     // fetched but not yet summed
  std::vector<int64_t> documents_;  // indexed by micro-batch
  std::vector<int64_t> agreement_;  // what COUNT_TOKENS sums over ranks
  std::optional<PairObjective> pairs_;
  int64_t chosen_targets_ = 0;
  std::exception_ptr load_error_;
};

}  // namespace hawser::train
