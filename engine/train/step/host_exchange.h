// HostExchange: where a step meets the host and the other ranks. Micro-batches and scalars go in; token
// counts, losses and the gradient norm come out, agreed by all ranks. What goes to the arena or comes from it
// goes over a HostLink.
#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include "engine/comm/process_group.h"
#include "engine/device/host_link.h"
#include "engine/nn/lookup_gradient.h"
#include "engine/plan/plan.h"
#include "engine/train/step/run.h"
#include "engine/train/step/step_mirror.h"

namespace hawser::train {

class HostExchange {
 public:
  struct Setup {
    device::HostLink* link = nullptr;
    StepMirror mirror;
    comm::ProcessGroup* dp = nullptr;       ///< all who see samples of the global batch; null for one rank
    nn::LookupGradient* lookups = nullptr;  ///< null: nothing looks up beside a tied head
    int32_t padding_token = -1;
    StepScalars* scalars = nullptr;  ///< the device's
    StepSums* sums = nullptr;        ///< the device's
  };
  explicit HostExchange(const Setup& setup);

  /// Before a run of `plan`. What follows allocates nothing.
  void begin(const plan::Plan& plan);

  // In the order of a step.

  /// LOAD_MICRO_BATCH, to `slot` of the arena. Bad data is kept until COUNT_TOKENS, where all ranks learn of
  /// it together.
  void load(int32_t micro_batch, char* slot, Run* run);
  /// COUNT_TOKENS: of all ranks, what LOAD counted on each. Throws on all ranks if one could not load.
  void count_tokens(Run* run);
  /// LOSS, EVAL_LOSS: the device's losses go to the host when it gets there.
  void fetch_losses(int32_t micro_batch, float* losses, int64_t count);
  /// Which are summed then: in training by agree_on_norm, so that the host need not wait here, unless in place
  /// they would be gone by then.
  void note_losses(int32_t micro_batch, float* losses, Run* run);
  /// GRAD_NORM of no block: the sum of squares, and the losses', over all ranks.
  void agree_on_norm(Run* run);

  /// What the optimizer reads in the second half.
  void set_scalars(const kernels::OptimizerScalars& scalars);
  StepScalars* scalars() const { return s_.scalars; }
  StepSums* sums() const { return s_.sums; }
  /// In the micro-batch; 0: not counted.
  int64_t documents(int32_t micro_batch) const;
  /// As if every micro-batch of the plan had so many.
  void assume_documents(const plan::Plan& plan, int64_t documents);

 private:
  void fail_together();
  void sum_losses(ExactSum* sum);

  struct Losses {
    const float* values;
    int64_t count;
  };
  Setup s_;
  StepScalars* host_scalars_;  // the host's side of them
  StepSums* host_sums_;
  std::vector<Losses> fetched_;     // not yet summed
  std::vector<int64_t> documents_;  // by micro-batch
  std::vector<int64_t> agreement_;  // what COUNT_TOKENS sums over ranks
  std::exception_ptr load_error_;
};

}  // namespace hawser::train
