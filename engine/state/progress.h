// Progress: the state of a run besides its tensors: the durable state, which changes only when a step ends or
// a checkpoint is loaded, and what is waiting: a pushed batch, or a step that is not yet committed.
#pragma once

#include "engine/base/error.h"
#include "engine/config/resolved_config.h"
#include "engine/execute/batch_sources.h"
#include "engine/execute/step_result.h"
#include "engine/optim/fp8_history.h"
#include "engine/optim/loss_scale.h"
#include "engine/optim/step_guard.h"
#include "engine/state/initial_weights.h"
#include "engine/state/run_state.h"

namespace hawser::train {

struct Progress {
  Progress(const config::ResolvedConfig& config, optim::Fp8History history, InitialWeights initial)
      : guard(config.guard),
        loss_scale(config.loss_scale, config.precision == config::Precision::kFp16),
        fp8_history(std::move(history)),
        extra_files(std::move(initial.files)),
        base_json(std::move(initial.base_json)),
        digests(std::move(initial.digests)) {}

  RunState state;  ///< except the guard's windows, the loss scale and the history, which the next three hold
  optim::StepGuard guard;
  optim::LossScale loss_scale;
  optim::Fp8History fp8_history;
  checkpoint::hf::ExtraFiles extra_files;  ///< copied to every checkpoint and export
  const std::string base_json;             ///< the base that checkpoints leave out (base_weights.h)
  bool weights_changed = false;            ///< the host program has set weights since they were read
  const std::string digests;               ///< InitialWeights::digests
  PushedBatch pushed;
  bool pending = false;         ///< true between forward_backward and commit or discard
  bool average_in_use = false;  ///< the weights and their averages have changed places (averaged_weights.h)
  StepResult result;            ///< of the pending step, or else of the last one

  void require_pending() const {
    if (!pending) fail(Code::kFailedPrecondition, "no step is pending: call forward_backward first");
  }
  void require_no_pending() const {
    if (pending) fail(Code::kFailedPrecondition, "a step is pending: commit or discard it first");
  }
  void require_trained_weights() const {
    if (average_in_use)
      fail(Code::kFailedPrecondition,
           "the average of the weights is in use: return to the trained weights first "
           "(hws_engine_use_average)");
  }
  /// Training, saves and loads need both.
  void require_between_steps() const {
    require_no_pending();
    require_trained_weights();
  }
};

}  // namespace hawser::train
