// The result of a step, and the batch that the host program passes to one.
#pragma once

#include <array>
#include <cstdint>

#include "engine/nn/model_config.h"
#include "engine/optim/objective.h"
#include "engine/optim/score_clip.h"

namespace hawser::train {

enum class Outcome : int32_t {
  kAccepted = 0,
  kSkippedNonFinite = 1,
  kSkippedOutlier = 2,
  kDiscarded = 3,
  kPending = 4,
  kSkippedOverflow = 5,
  kRewound = 6
};

struct StepResult {
  Outcome outcome = Outcome::kAccepted;
  int64_t step = 0;
  double loss = 0, grad_norm = 0, learning_rate = 0;
  int64_t tokens = 0, samples = 0, skipped = 0;
  double seconds = 0;
  int64_t rows = 0;                 ///< of the step, on all ranks
  double loss_scale = 1;            ///< with which the step ran
  optim::PairRewards rewards = {};  ///< set if the objective is over pairs
  optim::ScoreSummary scores = {};  ///< set if the config limits attention scores
  /// The mean loss of each prediction depth; 0 if it has no targets.
  std::array<double, nn::kMostAhead> ahead_losses{};
};

/// The caller's batch, borrowed for the call. targets, document_begin and weights may be null.
struct BatchView {
  int64_t rows = 0, cols = 0;
  const int32_t* tokens = nullptr;
  const int32_t* targets = nullptr;
  const int32_t* document_begin = nullptr;
  const float* weights = nullptr;
  const float* references = nullptr;  ///< [rows]; null unless the objective has a reference
  int64_t teacher_top = 0;            ///< ids of a teacher at each position; 0: none
  const int32_t* teacher_ids = nullptr;
  const float* teacher_logprobs = nullptr;  ///< [rows, cols, teacher_top], as teacher_ids
};

}  // namespace hawser::train
