// Progress: how far a run has come. Everything durable of it besides tensors, which changes only when a step
// ends or a checkpoint is loaded, and what waits: a pushed batch, a step that is not yet decided.
#pragma once

#include "engine/base/error.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/optim/step_guard.h"
#include "engine/train/save/run_state.h"
#include "engine/train/step/batch_sources.h"
#include "engine/train/step_result.h"

namespace hawser::train {

struct Progress {
  Progress(const optim::GuardConfig& guard_config, checkpoint::hf::ExtraFiles files)
      : guard(guard_config), extra_files(std::move(files)) {}

  RunState state;  ///< but for the guard's windows, which the guard holds
  optim::StepGuard guard;
  checkpoint::hf::ExtraFiles extra_files;  ///< carried along to every checkpoint and export
  PushedBatch pushed;
  bool pending = false;  ///< between forward_backward and commit or discard
  StepResult result;     ///< of the pending step, else of the last one

  void require_pending() const {
    if (!pending) fail(Code::kFailedPrecondition, "no step is pending: call forward_backward first");
  }
  void require_no_pending() const {
    if (pending) fail(Code::kFailedPrecondition, "a step is pending: commit or discard it first");
  }
};

}  // namespace hawser::train
