// HostExchange: the part of a step that exchanges data with the host and with other ranks. Micro-batches and
// scalars go in. Token counts, losses and the gradient norm come out, summed over all ranks. Data moves to
// and from the arena over a HostLink.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "engine/comm/process_group.h"
#include "engine/device/host_link.h"
#include "engine/execute/fp8_maxima.h"
#include "engine/execute/run.h"
#include "engine/execute/step_maxima.h"
#include "engine/execute/step_mirror.h"
#include "engine/execute/step_objective.h"
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
    const comm::CallTrail* trail = nullptr;  ///< of the device's calls; null if hosts make them
    comm::ProcessGroup* dp = nullptr;        ///< ranks that share the global batch; null for one rank
    nn::LookupGradient* lookups = nullptr;   ///< null unless a trained head shares the embedding table
    std::vector<int64_t> kinds = {};         ///< by member of `dp`; equal kinds make the same calls
    nn::LocalColumns own = {};               ///< of each row, if ranks divide columns
    comm::ProcessGroup* cp = nullptr;        ///< ranks that have the other columns; null if none do
    comm::ProcessGroup* tp = nullptr;        ///< tensor-parallel ranks; null if there are none
    bool counts_rows = true;                 ///< this rank counts the losses of its rows; else another does
    bool counts_tokens = true;               ///< this rank counts the tokens of its rows
    int32_t padding_token = -1;
    int64_t tally_words = 0;         ///< numbers that routers count
    int64_t ahead = 0;               ///< depths of multi-token prediction
    double ahead_weight = 0;         ///< of the mean of their losses
    int64_t fp8_operands = 0;        ///< operands whose scales follow from maxima of earlier steps
    bool records_maxima = false;     ///< steps record the maxima of these operands
    int64_t head_scores = 0;         ///< heads whose largest scores steps note
    ObjectiveSetup objective = {};   ///< of training
    int64_t teacher_top = 0;         ///< ids of a teacher at each position, in training
    bool scores = false;             ///< the model ends in a score
    StepScalars* scalars = nullptr;  ///< the device's
    StepSums* sums = nullptr;        ///< the device's
    float* fp8_maxima = nullptr;     ///< the device's; null without operands
  };
  explicit HostExchange(const Setup& setup);

  /// Call before a run of `plan`. The calls below allocate nothing.
  void begin(const plan::Plan& plan);

  // The following are in the order of a step.

  /// LOAD_MICRO_BATCH: fills `slot` of the arena. An error in the data is stored until COUNT_TOKENS, where
  /// all ranks throw together.
  void load(int32_t micro_batch, char* slot, Run* run);
  /// COUNT_TOKENS: sums over ranks what LOAD_MICRO_BATCH counted. Throws on all ranks if one could not load,
  /// or if devices that must make the same calls have made different ones since the start.
  void count_tokens(Run* run);
  /// LOGPROBS, LOSS, EVAL_LOSS: copies the losses to the host once the device has computed them.
  void fetch_losses(int32_t micro_batch, float* losses, int64_t count);
  /// OBJECTIVE: writes the targets' weights into the micro-batch.
  void apply_objective(int32_t micro_batch, float* losses, char* slot, Run* run);
  /// Adds the losses to the run, if its loss is their sum; those of prediction depths are summed apart. In
  /// training agree_on_norm does this later, so that the host need not wait here, unless the device works in
  /// place and would overwrite them first.
  void note_losses(int32_t micro_batch, float* losses, Run* run);
  /// The last GRAD_NORM: sums the squares of gradients, and the losses, over all ranks.
  void agree_on_norm(Run* run);

  /// Returns what the routers of all ranks counted in this step. Call it after agree_on_norm.
  const int64_t* tallies() const { return tallies_of(host_sums_); }
  void set_tallies(const int64_t* tallies);

  /// The largest magnitudes of fp8 operands, and the largest attention scores of heads in this step. After
  /// agree_on_norm, those of this step are those of all ranks.
  Fp8Maxima& fp8_maxima() { return fp8_maxima_; }
  StepMaxima& head_scores() { return head_scores_; }

  /// Returns the rewards of the last step; zeros if the objective has none.
  optim::PairRewards rewards() const { return objective_->rewards(); }

  /// Returns true if `here` is true on all ranks that compute a block together. These ranks run the same
  /// shapes; in an evaluation, other ranks may have fewer rows.
  bool agree(bool here) const;

  /// Sets what the optimizer reads in the update phase.
  void set_scalars(const kernels::OptimizerScalars& scalars);
  StepScalars* scalars() const { return s_.scalars; }
  /// The same values on the host.
  const StepScalars* host_scalars() const { return host_scalars_; }
  /// Squares of gradients that are in host memory, which agree_on_norm adds to those of the device.
  ExactSum* host_squares() { return &host_squares_; }
  StepSums* sums() const { return s_.sums; }
  /// Returns the number of documents in the micro-batch; 0 if they are not counted.
  int64_t documents(int32_t micro_batch) const;
  /// Returns the columns of the loaded micro-batch: the run's or, in training, those that its rows need.
  int64_t columns(int32_t micro_batch, const Run& run) const;
  /// Assumes this many documents in every micro-batch of the plan, with all columns.
  void assume_documents(const plan::Plan& plan, int64_t documents);

 private:
  nn::LocalColumns own_columns(const Run& run) const { return run.cached >= 0 ? nn::LocalColumns() : s_.own; }
  MicroBatchForm form_of(const Run& run) const {
    const MicroBatchForm whole{own_columns(run)};
    return run.training ? MicroBatchForm{whole.own, s_.teacher_top, s_.ahead} : whole;
  }
  int64_t noted_words() const { return train::noted_words(s_.tally_words, s_.ahead); }
  StepObjective& objective_of(const Run& run) { return run.training ? *objective_ : evaluation_; }
  void hand_out(const float* losses, const Run& run) const;
  void compare_device_calls();
  void fail_together();
  void set_scales(const Run& run);
  void sum_losses(ExactSum* sum, ExactSum* ahead);

  struct Losses {
    const float* values;
    int64_t count;
    int64_t depth = 0;  // 0: of the next token
  };
  Setup s_;
  StepScalars* host_scalars_;  // the copy of s_.scalars on the host
  StepSums* host_sums_;
  ExactSum host_squares_;           // of this rank's gradients in host memory, in this step
  std::vector<Losses> fetched_;     // fetched but not yet summed
  std::vector<int64_t> documents_;  // indexed by micro-batch
  std::vector<int64_t> columns_;    // indexed by micro-batch; 0: not loaded yet
  std::vector<int64_t> agreement_;  // what COUNT_TOKENS sums over ranks
  Fp8Maxima fp8_maxima_;
  StepMaxima head_scores_;
  StepObjective evaluation_;                  // the cross entropy, by which every other run is evaluated
  std::unique_ptr<StepObjective> objective_;  // of training
  int64_t counted_ = 0;                       // what the objective has counted in this step
  std::exception_ptr load_error_;
};

}  // namespace hawser::train
