// Inference: runs evaluation, logits and generation. Each has its own plan, which contains only forward
// passes.
//
// Threading: one call at a time, and none while a step runs. Collective if ranks are in several processes.
// Errors: arguments are checked before anything runs. kCancelled ends a call on all ranks. No call changes
// durable state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/execute/step_result.h"
#include "engine/ranks/ranks.h"
#include "engine/report/validations.h"
#include "engine/run/cancel.h"
#include "engine/state/monitor.h"

namespace hawser::train {

struct GenerateRequest {
  const int32_t* prompt = nullptr;
  int64_t prompt_length = 0, max_tokens = 0;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 0;
  std::vector<int32_t> stop_tokens;  ///< any of them ends the text, after fn has received it
};

struct Evaluation {
  double loss = 0;
  int64_t tokens = 0;
  std::vector<SetLoss> sets;                  ///< one for each validation set, if there are several
  std::optional<optim::PairRewards> rewards;  ///< set for pairs; then `loss` is the objective
};

class Inference {
 public:
  /// `dataset` may be null.
  Inference(const Ranks& ranks, const data::Dataset* dataset, Cancel* cancel, Monitor* monitor,
            Validations* validations)
      : ranks_(ranks), dataset_(dataset), cancel_(*cancel), monitor_(*monitor), validations_(*validations) {}

  /// Evaluates the cross entropy of `batch`. If it is null, evaluates the first max_batches batches of the
  /// validation data (0: train.eval_batches), by the objective if these are pairs.
  Evaluation eval(const BatchView* batch, int64_t max_batches);
  /// Writes logits as f32, [rows, cols, vocabulary], or scores, [rows, cols], if the model ends in a score.
  void forward(const BatchView& batch, float* logits, size_t logits_bytes);
  /// Writes the log-probability of each target in nats, [rows, cols], and 0 for masked targets. Ignores the
  /// batch's weights.
  void logprobs(const BatchView& batch, float* logprobs, size_t logprobs_bytes);
  /// Writes the `top` likeliest tokens of each position, the likeliest first and of equal ones the lower
  /// id, and their log-probabilities: [rows, cols, top] each. Ignores the batch's weights and targets.
  /// Throws kNumeric on all processes if logits are not finite.
  void top_logprobs(const BatchView& batch, int64_t top, std::span<int32_t> ids, std::span<float> logprobs);
  /// Calls fn(token) for each new token. Generation stops when fn returns false.
  void generate(const GenerateRequest& request, const std::function<bool(int32_t)>& fn);

 private:
  const config::ResolvedConfig& config() const { return ranks_.config(); }
  void require_logits(const char* what) const;
  struct Sums;
  Evaluation eval_sets(Rank& rank, const BatchView* batch, int64_t rows);
  Sums eval_rows(Rank& rank, const BatchView* batch, int64_t first, int64_t end);
  void run_for_all(const plan::Plan EnginePlans::*plan, const Run& run, void* results, int64_t bytes);
  int64_t head_rank() const;
  static void pass_on(Rank& rank, int64_t from, void* results, int64_t bytes);
  void round_to_bf16(float* values, int64_t n);
  void feed(const int32_t* tokens, int64_t n, int64_t cached, float* logits);

  const Ranks& ranks_;
  const data::Dataset* const dataset_;
  Cancel& cancel_;
  Monitor& monitor_;
  Validations& validations_;
};

}  // namespace hawser::train
