#include "engine/execute/host_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/comm/device/call_trail.h"
#include "engine/execute/agreed_error.h"
#include "engine/execute/ahead_rows.h"
#include "engine/execute/local_columns.h"
#include "engine/execute/scored_tokens.h"
#include "engine/optim/grad_norm.h"

namespace hawser::train {
namespace {

/// Counts documents: one begins at each position that cannot attend to an earlier one.
int64_t documents_in(const MicroBatch& batch) {
  int64_t documents = 0;
  for (int64_t i = 0; i < batch.batch * batch.seq; ++i)
    documents += batch.kv_begin[i] == i % batch.seq ? 1 : 0;
  return documents;
}

/// Places of what the ranks sum in COUNT_TOKENS: tokens, requests to stop, and for each rank a word with an
/// error code in its low bits and the hash of its device's calls in the other bits. The targets of each depth
/// ahead follow. An objective that weighs targets appends what it has counted.
constexpr size_t kTokens = 0, kCancelled = 1, kWords = 2;
constexpr uint64_t kCode = 0xff;

int64_t word_of(const comm::CallTrail* trail, int64_t code) {
  return static_cast<int64_t>((trail ? trail->mark() & ~kCode : 0) | static_cast<uint64_t>(code));
}
int64_t code_in(int64_t word) { return word & static_cast<int64_t>(kCode); }
int64_t mark_in(int64_t word) { return word & ~static_cast<int64_t>(kCode); }

int64_t code_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Error& e) {
    return static_cast<int64_t>(e.code());
  }
  return 0;
}

int64_t unmasked(const int32_t* targets, int64_t count) {
  return std::count_if(targets, targets + count, [](int32_t t) { return t != -100; });
}

size_t place_of(int32_t micro_batch) { return static_cast<size_t>(std::max(micro_batch, 0)); }

}  // namespace

HostExchange::HostExchange(const Setup& setup)
    : s_(setup),
      host_scalars_(s_.mirror.scalars(s_.scalars)),
      host_sums_(s_.mirror.sums(s_.sums)),
      fp8_maxima_(s_.link, s_.fp8_operands, s_.records_maxima, s_.fp8_maxima,
                  s_.mirror.fp8_maxima(s_.fp8_maxima), s_.dp),
      head_scores_(s_.head_scores, s_.dp) {
  objective_ = StepObjective::make(s_.objective);
  const ObjectiveWords words = StepObjective::words(s_.objective.objective, s_.objective.rows);
  if (s_.dp) agreement_.resize(static_cast<size_t>(agreement_words(s_.dp->size(), s_.ahead, words.count)));
}

void HostExchange::begin(const plan::Plan& plan) {
  fetched_.reserve(plan.instructions.size() * static_cast<size_t>(1 + s_.ahead));
  fetched_.clear();
  documents_.resize(std::max(documents_.size(), plan.instructions.size()));
  columns_.resize(documents_.size());
  fp8_maxima_.send();
}

void HostExchange::load(int32_t micro_batch, char* slot, Run* run) {
  if (micro_batch == 0) {
    load_error_ = nullptr;
    counted_ = 0;
    s_.link->wait_sent();
  }
  if (load_error_) return;
  char* const host = s_.mirror.micro_batch(micro_batch, slot);
  const nn::LocalColumns own = own_columns(*run);
  int64_t seq = run->seq;
  if (run->training)  // ranks that divide columns take two chunks of a row each
    seq = std::min(seq, std::max(run->source->columns(micro_batch, run->batch, seq), 2 * own.ranks));
  columns_[place_of(micro_batch)] = seq;
  const MicroBatchForm form = form_of(*run);
  MicroBatch batch = MicroBatch::in_slot(host, run->batch, seq, form);
  MicroBatch rows = MicroBatch::whole_rows(host, run->batch, seq, form);
  StepObjective& objective = objective_of(*run);
  const bool brings_weights = run->weights && !objective.weighs_targets();
  if (!brings_weights) batch.weights = rows.weights = nullptr;
  rows.references = objective.references(micro_batch);
  try {
    run->source->load(micro_batch, rows);
    if (s_.scores) mark_scored_tokens(rows);
    look_ahead(rows);
    // Ranks that divide columns all load whole rows, so only the first of them counts.
    if (s_.counts_tokens && own.rank == 0) counted_ += objective.count(rows);
  } catch (const Error&) {
    if (!s_.dp || !run->training) throw;
    load_error_ = std::current_exception();
    return;
  }
  documents_[place_of(micro_batch)] = run->documents ? documents_in(rows) : 0;
  if (own.ranks > 1) take_own_columns(rows, own, &batch);
  const int64_t count = batch.batch * batch.seq;
  if (s_.counts_tokens) run->tokens += unmasked(batch.targets, count);
  for (int64_t d = 0; d < batch.ahead.depths && s_.counts_tokens; ++d)
    run->ahead_tokens[static_cast<size_t>(d)] += unmasked(batch.ahead.targets + d * count, count);
  s_.link->send(slot, host, MicroBatch::sent_bytes(run->batch, seq, brings_weights, form));
  if (s_.lookups && run->training) s_.lookups->look_up(micro_batch, batch.tokens, count, s_.padding_token);
}

void HostExchange::count_tokens(Run* run) {
  *host_sums_ = {};
  host_squares_ = {};
  fp8_maxima_.clear();
  head_scores_.clear();
  std::fill_n(tallies_of(host_sums_), noted_words(), 0);
  s_.link->send(s_.sums, host_sums_, sums_bytes(noted_words()));
  if (s_.dp) {
    std::fill(agreement_.begin(), agreement_.end(), 0);
    agreement_[kTokens] = run->tokens;
    if (objective_->weighs_targets()) agreement_.back() = counted_;
    agreement_[kCancelled] = run->cancelled ? 1 : 0;
    agreement_[kWords + static_cast<size_t>(s_.dp->rank())] = word_of(s_.trail, code_of(load_error_));
    int64_t* const ahead = agreement_.data() + kWords + s_.dp->size();
    std::copy_n(run->ahead_tokens.begin(), s_.ahead, ahead);
    s_.dp->wait(s_.dp->all_reduce_i64(agreement_.data(), static_cast<int64_t>(agreement_.size())));
    compare_device_calls();
    fail_together();
    run->tokens = agreement_[kTokens];
    std::copy_n(ahead, s_.ahead, run->ahead_tokens.begin());
    run->cancelled = agreement_[kCancelled] > 0;
    if (objective_->weighs_targets()) counted_ = agreement_.back();
  }
  objective_->begin(counted_, run->step_rows);
  if (run->tokens == 0)
    throw AgreedError(Code::kDataInvalid,
                      "every target of the global batch is masked (-100): there is nothing to train on");
  set_scales(*run);
  s_.link->send(s_.scalars, host_scalars_, sizeof(StepScalars));
  if (s_.lookups)
    s_.link->send(s_.lookups->numbers(), s_.lookups->host_numbers(), s_.lookups->numbers_bytes());
}

/// Sets the factors of the gradients. The loss of a depth is the mean over its own targets, and the depths
/// share s_.ahead_weight equally.
void HostExchange::set_scales(const Run& run) {
  StepScalars& scalars = *host_scalars_;
  scalars.loss_scale = static_cast<float>(run.loss_scale);
  scalars.grad_scale = run.mean_loss ? static_cast<float>(1.0 / static_cast<double>(run.tokens)) : 1.0f;
  scalars.grad_scale *= scalars.loss_scale;
  const double share = s_.ahead > 0 ? s_.ahead_weight / static_cast<double>(s_.ahead) : 0;
  scalars.ahead_share = scalars.loss_scale * static_cast<float>(share);
  for (int64_t d = 0; d < s_.ahead; ++d) {
    const auto tokens = static_cast<double>(run.ahead_tokens[static_cast<size_t>(d)]);
    scalars.ahead_scales[d] = tokens > 0 ? scalars.loss_scale * static_cast<float>(share / tokens) : 0.0f;
  }
}

/// Throws if devices that must make the same calls have made different ones. The weights may then be wrong,
/// so this is no AgreedError, after which the ranks would continue.
void HostExchange::compare_device_calls() {
  if (s_.trail == nullptr) return;
  for (size_t r = 0; r < s_.kinds.size(); ++r) {
    const auto first = std::find(s_.kinds.begin(), s_.kinds.end(), s_.kinds[r]) - s_.kinds.begin();
    if (mark_in(agreement_[kWords + r]) != mark_in(agreement_[kWords + static_cast<size_t>(first)]))
      s_.trail->find_difference(*s_.dp, s_.kinds);
  }
}

/// Throws on all ranks if one could not load its part of the batch. That rank throws its own error; the
/// others throw one that names it.
void HostExchange::fail_together() {
  if (load_error_) {
    try {
      std::rethrow_exception(std::exchange(load_error_, nullptr));
    } catch (const Error& e) {
      throw AgreedError(e);
    }
  }
  for (size_t r = 0; r < static_cast<size_t>(s_.dp->size()); ++r)
    if (code_in(agreement_[kWords + r]) != 0)
      throw AgreedError(static_cast<Code>(code_in(agreement_[kWords + r])),
                        fmt::format("rank {} could not load its part of the batch; see that rank's error",
                                    s_.dp->members()[r]));
}

bool HostExchange::agree(bool here) const {
  int64_t against = here ? 0 : 1;
  for (comm::ProcessGroup* const group : {s_.tp, s_.cp})
    if (group) group->wait(group->all_reduce_i64(&against, 1));
  return against == 0;
}

void HostExchange::fetch_losses(int32_t micro_batch, float* losses, int64_t count) {
  s_.link->fetch(s_.mirror.losses(micro_batch, losses), losses, count * static_cast<int64_t>(sizeof(float)));
}

void HostExchange::apply_objective(int32_t micro_batch, float* losses, char* slot, Run* run) {
  s_.link->wait();
  const MicroBatchForm form = form_of(*run);
  char* const host = s_.mirror.micro_batch(micro_batch, slot);
  const int64_t seq = columns(micro_batch, *run);
  const MicroBatch batch = MicroBatch::in_slot(host, run->batch, seq, form);
  objective_->apply_objective(micro_batch, s_.mirror.losses(micro_batch, losses),
                              MicroBatch::whole_rows(host, run->batch, seq, form), batch);
  if (s_.scores)  // the loss weights of scores are their gradients
    for (int64_t i = 0; i < batch.batch * batch.seq; ++i)
      batch.weights[i] *= static_cast<float>(run->loss_scale);
  s_.link->send(MicroBatch::in_slot(slot, run->batch, seq, form).weights, batch.weights,
                batch.batch * batch.seq * static_cast<int64_t>(sizeof(float)));
}

void HostExchange::note_losses(int32_t micro_batch, float* losses, Run* run) {
  if (objective_of(*run).weighs_targets()) return;
  const int64_t columns = own_columns(*run).count(this->columns(micro_batch, *run));
  const int64_t count = run->batch * columns;
  for (int64_t d = 0; d <= (run->training ? s_.ahead : 0); ++d)
    fetched_.push_back({s_.mirror.losses(micro_batch, losses) + d * count, count, d});
  if (!run->training) {
    s_.link->wait();
    if (run->wants_token_losses) hand_out(fetched_.back().values, *run);
    sum_losses(&run->losses, nullptr);
  } else if (s_.link->in_place()) {
    sum_losses(&host_sums_->losses, ahead_of(host_sums_, s_.tally_words));
  }
}

/// Copies the losses of all columns to the caller. Ranks that divide columns first gather each other's.
void HostExchange::hand_out(const float* losses, const Run& run) const {
  const nn::LocalColumns own = own_columns(run);
  const int64_t seq = own.count(run.seq), count = run.batch * seq;
  std::vector<float> all;
  if (s_.cp) {
    all.resize(static_cast<size_t>(own.ranks * count));
    const comm::GatherPiece piece{all.data(), losses, count};
    s_.cp->wait(s_.cp->all_gather({&piece, 1}, DType::kF32));
    losses = all.data();
  }
  for (int64_t i = 0; run.token_losses && i < own.ranks * count; ++i) {
    const int64_t row = i % count / seq;
    const int64_t column = nn::LocalColumns{own.ranks, i / count}.column(i % seq, seq);
    if (column < run.seq) run.token_losses[row * run.seq + column] = losses[i];
  }
}

void HostExchange::sum_losses(ExactSum* sum, ExactSum* ahead) {
  s_.link->wait();
  for (const Losses& losses : fetched_)
    for (int64_t i = 0; s_.counts_rows && i < losses.count; ++i)
      (losses.depth == 0 ? sum : ahead + losses.depth - 1)->add(static_cast<double>(losses.values[i]));
  fetched_.clear();
}

void HostExchange::agree_on_norm(Run* run) {
  StepSums& sums = *host_sums_;
  s_.link->fetch(&sums.squares, &s_.sums->squares, sizeof(ExactSum));
  const int64_t tally_bytes = s_.tally_words * static_cast<int64_t>(sizeof(int64_t));
  if (tally_bytes > 0) s_.link->fetch(tallies_of(&sums), tallies_of(s_.sums), tally_bytes);
  fp8_maxima_.fetch();
  ExactSum* const ahead = ahead_of(&sums, s_.tally_words);
  sum_losses(&sums.losses, ahead);
  sums.squares.merge(host_squares_);
  if (s_.dp) {
    sums.squares.normalise();
    sums.losses.normalise();
    for (int64_t d = 0; d < s_.ahead; ++d) ahead[d].normalise();
    s_.dp->wait(s_.dp->all_reduce_i64(sums.squares.words, kSumsWords + noted_words()));
  }
  fp8_maxima_.agree();
  head_scores_.agree();
  if (tally_bytes > 0) s_.link->send(tallies_of(s_.sums), tallies_of(&sums), tally_bytes);
  run->grad_norm = optim::grad_norm(sums.squares) / run->loss_scale;
  run->losses = sums.losses;
  for (int64_t d = 0; d < s_.ahead; ++d) run->ahead_losses[static_cast<size_t>(d)] = ahead[d].value();
  run->loss_sum = objective_->agree(sums.losses.value());
}

void HostExchange::set_tallies(const int64_t* tallies) {
  std::copy_n(tallies, s_.tally_words, tallies_of(host_sums_));
  s_.link->send(tallies_of(s_.sums), tallies_of(host_sums_),
                s_.tally_words * static_cast<int64_t>(sizeof(int64_t)));
}

void HostExchange::set_scalars(const kernels::OptimizerScalars& scalars) {
  host_scalars_->optimizer = scalars;
  s_.link->send(s_.scalars, host_scalars_, sizeof(StepScalars));
}

int64_t HostExchange::columns(int32_t micro_batch, const Run& run) const {
  const int64_t loaded = run.training && micro_batch >= 0 ? columns_[place_of(micro_batch)] : 0;
  return loaded > 0 ? loaded : run.seq;
}

int64_t HostExchange::documents(int32_t micro_batch) const { return documents_[place_of(micro_batch)]; }

void HostExchange::assume_documents(const plan::Plan& plan, int64_t documents) {
  documents_.assign(std::max(documents_.size(), plan.instructions.size()), documents);
  columns_.assign(documents_.size(), 0);
}

}  // namespace hawser::train
