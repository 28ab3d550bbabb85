#include "engine/run/inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "engine/base/error.h"
#include "engine/base/saturating.h"
#include "engine/execute/batch_sources.h"
#include "engine/execute/top_logprobs.h"
#include "engine/ranks/agreement.h"
#include "engine/ranks/collective_phases.h"
#include "engine/run/eval_objective.h"
#include "engine/run/token_sampler.h"

namespace hawser::train {

namespace {

constexpr int64_t kFloat = sizeof(float);

/// Loads fully masked rows, for a rank that has no rows left while other ranks still need its weights.
class MaskedSource final : public BatchSource {
 public:
  void load(int32_t, const MicroBatch& out) override {
    const int64_t n = out.batch * out.seq;
    std::fill_n(out.tokens, n, 0);
    std::fill_n(out.targets, n, -100);
    std::fill_n(out.positions, n, 0);
    std::fill_n(out.kv_begin, n, 0);
    std::fill_n(out.samples, out.batch, 0);
    if (out.weights) std::fill_n(out.weights, n, 0.0f);
  }
};

/// Loads the rows of `from`. If that fails, stores the error and loads fully masked rows, because the other
/// ranks need this one until the end.
class KeepError final : public BatchSource {
 public:
  KeepError(BatchSource* from, std::exception_ptr* error) : from_(from), error_(error) {}
  void load(int32_t micro_batch, const MicroBatch& out) override {
    try {
      if (!*error_) return from_->load(micro_batch, out);
    } catch (const Error&) {
      *error_ = std::current_exception();
    }
    MaskedSource().load(micro_batch, out);
  }

 private:
  BatchSource* const from_;
  std::exception_ptr* const error_;
};

/// Loads rows of the validation data, or of a batch. Micro-batch m begins m * stride rows after `row`.
class EvalSource final : public BatchSource {
 public:
  EvalSource(const BatchView* batch, const data::Dataset* dataset, int64_t row, int64_t stride)
      : batch_(batch), dataset_(dataset), row_(row), stride_(stride) {}
  void load(int32_t micro_batch, const MicroBatch& out) override {
    const int64_t row = row_ + std::max(micro_batch, 0) * stride_;
    if (batch_ != nullptr) return BatchViewSource(*batch_, row, 0).load(0, out);
    DatasetSource(*dataset_, data::Split::kValidation, static_cast<uint64_t>(row)).load(0, out);
  }

 private:
  const BatchView* const batch_;
  const data::Dataset* const dataset_;
  const int64_t row_, stride_;
};

}  // namespace

/// Throws if the model ends in a score, and so has no probabilities of tokens.
void Inference::require_logits(const char* what) const {
  if (config().model.has_score())
    fail(Code::kFailedPrecondition,
         "the model has a score head (/model/head), but {} needs probabilities of tokens: hws_engine_forward "
         "gives the scores",
         what);
}

/// The sums of an evaluation. Ranks add them up at its end, as int64 words.
struct Inference::Sums {
  ExactSum losses;
  PairSums pairs;
  int64_t tokens = 0, failed = 0;

  /// NaN if there are no rows.
  double mean(const optim::ObjectiveConfig& objective) const {
    return pairs.pairs > 0 ? pairs.loss(objective) : losses.value() / static_cast<double>(tokens);
  }
};

Evaluation Inference::eval(const BatchView* batch, int64_t max_batches) {
  cancel_.begin();
  const Monitor::InPhase in_phase(&monitor_, Phase::kEval);
  if (batch == nullptr && (dataset_ == nullptr || dataset_->validation_samples() == 0))
    fail(Code::kFailedPrecondition,
         "there is no validation data: give a batch, or set /data/validation_fraction or "
         "/data/validation_sources");
  if (batch) require_logits("the cross entropy of a batch");
  if (batch) check_batch(*batch, config().model.vocab_size, config().batch.sequence, true);
  if (batch == nullptr && config().objective.has_reference() && dataset_->references().empty())
    fail(Code::kFailedPrecondition,
         "/objective/kind needs the log-probabilities of a reference. An engine for inference has them only "
         "if "
         "/init/from is a checkpoint of a run with a reference; set /objective/reference to the reference's "
         "folder, or give a batch to evaluate its cross entropy");
  const int64_t limit = max_batches > 0 ? max_batches : config().train.eval_batches;
  int64_t rows = batch ? batch->rows : dataset_->validation_samples();
  if (batch == nullptr && limit > 0)
    rows = std::min(rows, saturating_product(limit, config().batch.global_batch));
  Evaluation result;
  ranks_.on_each([&](Rank& rank, int32_t i) {
    const Evaluation e = eval_sets(rank, batch, rows);
    if (i == 0) result = e;
  });
  if (result.tokens == 0) fail(Code::kDataInvalid, "every target of the evaluation is masked (-100)");
  if (batch == nullptr) validations_.record(result.sets, result.rewards);
  return result;
}

/// Evaluates the first `rows` rows, set by set. Sums are exact, so their total equals the sum over all rows
/// at once.
Evaluation Inference::eval_sets(Rank& rank, const BatchView* batch, int64_t rows) {
  Evaluation result;
  Sums total;
  int64_t first = 0;
  const auto add = [&](int64_t end) {
    const Sums sums = first < end ? eval_rows(rank, batch, first, end) : Sums();
    total.losses.merge(sums.losses);
    total.pairs.merge(sums.pairs);
    total.tokens += sums.tokens;
    first = end;
    return sums;
  };
  if (batch == nullptr)
    for (const data::Dataset::ValidationSet& set : dataset_->validation_sets()) {
      const Sums sums = add(std::min(rows, first + set.samples));
      result.sets.push_back({set.name, sums.mean(config().objective), sums.tokens});
    }
  add(rows);
  result.loss = total.mean(config().objective);
  result.tokens = total.tokens;
  if (total.pairs.pairs > 0) result.rewards = total.pairs.rewards();
  return result;
}

/// Evaluates rows [first, rows). Data-parallel ranks take micro-batches round-robin, all the same number. A
/// pipeline processes several micro-batches at the same time as long as all of them are complete.
Inference::Sums Inference::eval_rows(Rank& rank, const BatchView* batch, int64_t first, int64_t rows) {
  comm::ProcessGroup* const dp = rank.groups().dp.get();
  const int64_t micro = config().batch.micro_batch, stride = micro * config().mesh.dp();
  const int64_t seq = batch ? batch->cols : config().batch.sequence;
  const auto objective =
      EvalObjective::make(batch ? optim::ObjectiveConfig() : config().objective, micro, seq);
  const int64_t at_once = objective->at_once(ranks_.strategies().form().eval_micro_batches);
  Sums sums;
  Run run;
  std::exception_ptr error;  // error in this rank's data
  run.seq = seq;
  run.token_losses = objective->token_losses();
  run.wants_token_losses = run.token_losses != nullptr;
  run.documents = batch ? batch->document_begin != nullptr : config().data.packing;
  run.weights = batch ? batch->weights != nullptr : dataset_->has_weights();
  for (int64_t begin = first, wave = 1; begin < rows; begin += wave * stride) {
    if (rank.number() == ranks_.first().number()) monitor_.count(begin, rows);
    if (on_any_rank(dp, cancel_.ends_call()))
      throw AgreedError(Code::kCancelled,
                        fmt::format("the evaluation was cancelled after {} of {} rows", begin, rows));
    wave = at_once > 1 && begin + at_once * stride <= rows ? at_once : 1;
    const int64_t row = begin + rank.dp_rank() * micro;
    run.batch = row < rows ? std::min(micro, rows - row) : 1;
    MaskedSource none;
    EvalSource source(batch, dataset_, row, stride);
    run.source = row < rows ? objective->load_from(&source, run.batch) : &none;
    KeepError kept(run.source, &error);
    if (dp) run.source = &kept;
    rank.run(wave > 1 ? rank.plans().eval_pipeline : rank.plans().eval, &run);
    if (row < rows && !error && ranks_.reports_losses(rank)) objective->add(&sums.pairs);
  }
  sums.losses = run.losses, sums.tokens = run.tokens, sums.failed = error ? 1 : 0;
  sums.losses.normalise();
  sums.pairs.normalise();
  if (dp) dp->wait(dp->all_reduce_i64(sums.losses.words, sizeof sums / sizeof(int64_t)));
  if (sums.failed > 0)
    CollectivePhases(dp).from_all([&] {
      if (error) std::rethrow_exception(error);
      return std::string();
    });
  return sums;
}

/// Returns the first rank with the model's head; 0 unless the head is on a later stage of a pipeline.
int64_t Inference::head_rank() const {
  const std::vector<int64_t>& stages = ranks_.stages().front().strategy.stage_of;
  return stages.empty() ? 0 : ranks_.strategies().first_of_stage(stages.back());
}

/// Broadcasts the results of rank `from`, which may be in another process. A rank that does not want them
/// passes null.
void Inference::pass_on(Rank& rank, int64_t from, void* results, int64_t bytes) {
  constexpr int64_t kPiece = 1 << 20;  // bytes
  std::vector<char> piece(static_cast<size_t>(std::min(bytes, kPiece)));
  comm::ProcessGroup& all = *rank.groups().dp;
  for (int64_t at = 0; at < bytes; at += kPiece) {
    void* const to = results != nullptr ? static_cast<char*>(results) + at : piece.data();
    all.wait(all.broadcast(to, std::min(bytes - at, kPiece), static_cast<int32_t>(from)));
  }
}

/// The first local rank computes the result. In a pipeline, the first rank with the model's head does, and
/// broadcasts it to all processes. Other ranks run too if that rank needs them.
void Inference::run_for_all(const plan::Plan EnginePlans::*plan, const Run& run, void* results,
                            int64_t bytes) {
  const bool stages = ranks_.strategies().stages() > 1;
  const bool alone = !stages && !ranks_.strategies().form().shares_blocks;
  const int64_t head = head_rank();
  ranks_.on_each([&](Rank& rank, int32_t i) {
    if (i > 0 && !rank.layout().weights_sharded() && alone) return;
    Run mine = run;
    if (stages ? rank.number() != head : i > 0)
      mine.logits = mine.token_losses = nullptr, mine.logits_reader = nullptr;
    rank.run(rank.plans().*plan, &mine);
    if (stages && !ranks_.all_local()) {
      const bool wants = rank.number() == head || (i == 0 && !ranks_.is_local(head));
      pass_on(rank, head, wants ? results : nullptr, bytes);
    }
  });
}

void Inference::forward(const BatchView& batch, float* logits, size_t logits_bytes) {
  check_batch(batch, config().model.vocab_size, config().batch.sequence, false);
  const int64_t per_row = batch.cols * config().model.outputs();
  const int64_t needed = saturating_product(batch.rows, per_row * static_cast<int64_t>(sizeof(float)));
  if (logits == nullptr || logits_bytes != static_cast<size_t>(needed))
    fail(Code::kInvalidArgument, "logits has {} bytes; {} x {} x {} floats take {}", logits_bytes, batch.rows,
         batch.cols, config().model.outputs(), needed);
  Run run;
  run.seq = batch.cols;
  run.documents = batch.document_begin != nullptr;
  for (int64_t row = 0; row < batch.rows; row += config().batch.micro_batch) {
    run.batch = std::min(config().batch.micro_batch, batch.rows - row);
    BatchViewSource source(batch, row, 0);
    run.source = &source;
    run.logits = logits + row * per_row;
    run_for_all(&EnginePlans::logits, run, run.logits, run.batch * per_row * kFloat);
  }
  if (config().output_type == config::Precision::kBf16) round_to_bf16(logits, batch.rows * per_row);
}

void Inference::logprobs(const BatchView& batch, float* logprobs, size_t logprobs_bytes) {
  require_logits("hws_engine_logprobs");
  check_batch(batch, config().model.vocab_size, config().batch.sequence, true);
  const int64_t count = batch.rows * batch.cols;
  if (logprobs == nullptr || logprobs_bytes != static_cast<size_t>(count) * sizeof(float))
    fail(Code::kInvalidArgument, "logprobs has {} bytes; {} x {} floats take {}", logprobs_bytes, batch.rows,
         batch.cols, static_cast<size_t>(count) * sizeof(float));
  Run run;
  run.seq = batch.cols;
  run.documents = batch.document_begin != nullptr;
  run.wants_token_losses = true;
  for (int64_t row = 0; row < batch.rows; row += config().batch.micro_batch) {
    run.batch = std::min(config().batch.micro_batch, batch.rows - row);
    BatchViewSource source(batch, row, 0);
    run.source = &source;
    run.token_losses = logprobs + row * batch.cols;
    run_for_all(&EnginePlans::eval, run, run.token_losses, run.batch * batch.cols * kFloat);
  }
  // The loss of a masked position is 0; negating it would give -0.
  for (int64_t i = 0; i < count; ++i) logprobs[i] = batch.targets[i] == -100 ? 0.0f : -logprobs[i];
}

void Inference::top_logprobs(const BatchView& batch, int64_t top, std::span<int32_t> ids,
                             std::span<float> logprobs) {
  require_logits("hws_engine_top_logprobs");
  const int64_t vocab = config().model.vocab_size;
  check_batch(batch, vocab, config().batch.sequence, false);
  if (top < 1 || top > vocab)
    fail(Code::kInvalidArgument, "top is {}; the model has a vocabulary of {}", top, vocab);
  const auto count = static_cast<size_t>(saturating_product(batch.rows * batch.cols, top));
  if (ids.size() != count || logprobs.size() != count)
    fail(Code::kInvalidArgument,
         "there is room for {} ids and {} log-probabilities; {} x {} x {} = {} are needed", ids.size(),
         logprobs.size(), batch.rows, batch.cols, top, count);
  Run run;
  run.seq = batch.cols;
  run.documents = batch.document_begin != nullptr;
  const int64_t micro = config().batch.micro_batch, of_row = batch.cols * top;
  std::vector<TokenLogprob> pairs(static_cast<size_t>(std::min(micro, batch.rows) * of_row));
  TopLogprobs reader(vocab, top, batch.cols, pairs.data());
  for (int64_t row = 0; row < batch.rows; row += micro) {
    run.batch = std::min(micro, batch.rows - row);
    BatchViewSource source(batch, row, 0);
    run.source = &source, run.logits_reader = &reader;
    const int64_t n = run.batch * of_row;
    run_for_all(&EnginePlans::logits, run, pairs.data(), n * static_cast<int64_t>(sizeof(TokenLogprob)));
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(row * of_row + i);
      ids[at] = id_of(pairs[static_cast<size_t>(i)]),
      logprobs[at] = logprob_of(pairs[static_cast<size_t>(i)]);
      if (std::isnan(logprobs[at]))
        fail(Code::kNumeric,
             "the logits at row {}, column {} are not finite: the model's weights are not finite, or so "
             "large that they overflow",
             row + i / of_row, i % of_row / top);
    }
  }
}

/// Rounds values to the nearest bf16 and stores them as f32.
void Inference::round_to_bf16(float* values, int64_t n) {
  std::vector<uint16_t> narrow(static_cast<size_t>(std::min<int64_t>(n, 1 << 16)));
  for (int64_t at = 0; at < n; at += static_cast<int64_t>(narrow.size())) {
    const int64_t count = std::min<int64_t>(n - at, static_cast<int64_t>(narrow.size()));
    ranks_.kernels().convert({narrow.data(), values + at, DType::kBf16, DType::kF32, count},
                             ranks_.first().stream());
    ranks_.kernels().convert({values + at, narrow.data(), DType::kF32, DType::kBf16, count},
                             ranks_.first().stream());
  }
}

/// Runs tokens[0, n) at positions from `cached` on, at most generate_rows at a time. `logits` receives those
/// of the last token, [vocab].
void Inference::feed(const int32_t* tokens, int64_t n, int64_t cached, float* logits) {
  Run run;
  run.batch = 1;
  run.logits = logits;
  for (int64_t done = 0; done < n; done += run.seq) {
    run.seq = std::min(generate_rows(config()), n - done);
    run.cached = cached + done;
    TextSource source(tokens + done, run.cached);
    run.source = &source;
    run_for_all(&EnginePlans::generate, run, logits, config().model.outputs() * kFloat);
  }
}

namespace {

/// Non-finite logits cannot be sampled. Every rank computes the same logits, so all of them throw.
void require_finite_logits(const std::vector<float>& logits, int64_t tokens) {
  const auto bad = std::find_if_not(logits.begin(), logits.end(), [](float v) { return std::isfinite(v); });
  if (bad == logits.end()) return;
  fail(Code::kNumeric,
       "the logits after {} tokens are not finite ({} for token {}), so no next token can be chosen: weights "
       "are not finite, or so large that they overflow; load an earlier checkpoint",
       tokens, *bad, bad - logits.begin());
}

}  // namespace

void Inference::generate(const GenerateRequest& request, const std::function<bool(int32_t)>& fn) {
  cancel_.begin();
  require_logits("generation");
  const Monitor::InPhase in_phase(&monitor_, Phase::kGenerate);
  const int64_t window = config().batch.sequence, vocab = config().model.vocab_size;
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
    // Processes exchange requests to cancel only every 16 tokens, because an exchange takes longer than a
    // token of a small model.
    if ((ranks_.all_local() || i % 16 == 0) && ranks_.on_any_process(cancel_.ends_call()))
      fail(Code::kCancelled, "the generation was cancelled after {} tokens", i);
    monitor_.count(i, request.max_tokens);
    const auto length = static_cast<int64_t>(text.size());
    if (cached == window) cached = 0, fed = length - window;  // the window moved, so every position changes
    feed(text.data() + fed, length - fed, cached, logits.data());
    cached += length - fed;
    fed = length;
    require_finite_logits(logits, length);
    const int32_t token = sample_token(logits.data(), vocab, sampler, static_cast<uint64_t>(i), &scratch);
    text.push_back(token);
    if (!fn(token) ||
        std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) != request.stop_tokens.end())
      return;
  }
}

}  // namespace hawser::train
