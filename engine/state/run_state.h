// RunState: all durable state of a run besides tensors. It changes only when a step ends.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "engine/optim/fp8_history.h"
#include "engine/optim/loss_scale.h"
#include "engine/optim/lr_schedule.h"
#include "engine/optim/step_guard.h"

namespace hawser::train {

struct RunState {
  int64_t step = 0;      ///< steps taken, including skipped ones: the schedule's clock
  int64_t accepted = 0;  ///< steps that changed the weights: the step count of AdamW
  int64_t samples = 0;   ///< data cursor: rows consumed
  int64_t skipped = 0;   ///< steps skipped or discarded
  int64_t skipped_in_row = 0;
  double best_validation_loss = std::numeric_limits<double>::infinity();
  int64_t validations_since_best = 0;
  /// Checkpoints of older versions lack this field, and their runs keep the rates with which they began.
  optim::DecayProgress decay = optim::DecayProgress::kBeforeStep;
  optim::Window losses, norms;  ///< the guard's windows
  /// Only runs in fp16 have one.
  std::optional<optim::LossScaleState> loss_scale;
  /// Only runs in fp8 with delayed scales have one.
  std::optional<optim::Fp8HistoryState> fp8_history;
};

/// Convert to and from JSON, without loss. run_state_from_json throws kCheckpointCorrupt for missing keys and
/// wrong values, and kCheckpointIncompatible for unknown ones.
std::string to_json(const RunState& state);
RunState run_state_from_json(std::string_view json);

}  // namespace hawser::train
