// Evaluation, logits and generation: the forward half of the model under plans of their own.
#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/train/token_sampler.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {

Evaluation TrainerImpl::eval(const BatchView* batch, int64_t max_batches) {
  if (batch == nullptr && (dataset_ == nullptr || dataset_->validation_samples() == 0))
    fail(Code::kFailedPrecondition,
         "there is no validation data: give a batch, or set /data/validation_fraction or "
         "/data/validation_sources");
  if (batch) check_batch(*batch, config_.model.vocab_size, config_.batch.sequence, true);
  const int64_t limit = max_batches > 0 ? max_batches : config_.train.eval_batches;
  int64_t rows = batch ? batch->rows : dataset_->validation_samples();
  if (batch == nullptr && limit > 0) rows = std::min(rows, limit * config_.batch.global_batch);

  Run run;
  run.seq = batch ? batch->cols : config_.batch.sequence;
  run.documents = batch ? batch->document_begin != nullptr : config_.data.packing;
  for (int64_t row = 0; row < rows; row += config_.batch.micro_batch) {
    if (cancelled()) fail(Code::kCancelled, "the evaluation was cancelled after {} of {} rows", row, rows);
    run.batch = std::min(config_.batch.micro_batch, rows - row);
    if (batch) {
      BatchViewSource source(*batch, row, 0);
      run.source = &source;
      executor_->run(plans_.eval, 0, plans_.eval.instructions.size(), &run);
    } else {
      DatasetSource source(*dataset_, data::Split::kValidation, static_cast<uint64_t>(row));
      run.source = &source;
      executor_->run(plans_.eval, 0, plans_.eval.instructions.size(), &run);
    }
  }
  if (run.tokens == 0) fail(Code::kDataInvalid, "every target of the evaluation is masked (-100)");
  return {run.loss_sum / static_cast<double>(run.tokens), run.tokens};
}

void TrainerImpl::forward(const BatchView& batch, float* logits, size_t logits_bytes) {
  check_batch(batch, config_.model.vocab_size, config_.batch.sequence, false);
  const int64_t per_row = batch.cols * config_.model.vocab_size;
  if (logits == nullptr || logits_bytes != static_cast<size_t>(batch.rows * per_row) * sizeof(float))
    fail(Code::kInvalidArgument, "logits has {} bytes; {} x {} x {} floats take {}", logits_bytes, batch.rows,
         batch.cols, config_.model.vocab_size, batch.rows * per_row * 4);
  Run run;
  run.seq = batch.cols;
  run.documents = batch.document_begin != nullptr;
  for (int64_t row = 0; row < batch.rows; row += config_.batch.micro_batch) {
    run.batch = std::min(config_.batch.micro_batch, batch.rows - row);
    BatchViewSource source(batch, row, 0);
    run.source = &source;
    run.logits = logits + row * per_row;
    executor_->run(plans_.logits, 0, plans_.logits.instructions.size(), &run);
  }
}

/// Runs tokens[0, n) at positions from `cached` on; logits[vocab] are those of the last. Pieces of
/// generate_rows.
void TrainerImpl::feed(const int32_t* tokens, int64_t n, int64_t cached, float* logits) {
  Run run;
  run.batch = 1;
  run.logits = logits;
  for (int64_t done = 0; done < n; done += run.seq) {
    run.seq = std::min(generate_rows(config_), n - done);
    run.cached = cached + done;
    TextSource source(tokens + done, run.cached);
    run.source = &source;
    executor_->run(plans_.generate, 0, plans_.generate.instructions.size(), &run);
  }
}

void TrainerImpl::generate(const GenerateRequest& request, const std::function<bool(int32_t)>& fn) {
  const int64_t window = config_.batch.sequence, vocab = config_.model.vocab_size;
  if (request.prompt == nullptr || request.prompt_length < 1)
    fail(Code::kInvalidArgument, "the prompt is empty: give at least one token");
  if (!(request.temperature >= 0) || !std::isfinite(request.temperature) || request.top_k < 0 ||
      !(request.top_p > 0) || request.top_p > 1 || request.max_tokens < 0)
    fail(Code::kInvalidArgument,
         "temperature {}, top_k {}, top_p {}, max_tokens {}: they must be >= 0, >= 0, in (0, 1], >= 0",
         request.temperature, request.top_k, request.top_p, request.max_tokens);
  check_batch({1, request.prompt_length, request.prompt, nullptr, nullptr}, vocab, INT64_MAX, false);

  std::vector<int32_t> text(request.prompt, request.prompt + request.prompt_length);
  std::vector<std::pair<double, int32_t>> scratch;
  std::vector<float> logits(static_cast<size_t>(vocab));
  const SamplerConfig sampler{request.temperature, request.top_k, request.top_p, request.seed};
  int64_t cached = 0, fed = std::max<int64_t>(0, request.prompt_length - window);
  for (int64_t i = 0; i < request.max_tokens; ++i) {
    if (cancelled()) fail(Code::kCancelled, "the generation was cancelled after {} tokens", i);
    const auto length = static_cast<int64_t>(text.size());
    if (cached == window)
      cached = 0, fed = length - window;  // the window moved: every position is another one now
    feed(text.data() + fed, length - fed, cached, logits.data());
    cached += length - fed;
    fed = length;
    const int32_t token = sample_token(logits.data(), vocab, sampler, static_cast<uint64_t>(i), &scratch);
    text.push_back(token);
    if (!fn(token) || token == request.stop_token) return;
  }
}

}  // namespace hawser::train
