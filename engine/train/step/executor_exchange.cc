// Where the executor meets the host and the other ranks in a step: micro-batches and scalars go in, counts,
// losses and the gradient norm come out.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/train/step/executor.h"

namespace hawser::train {
namespace {

/// Each begins where a position may see nothing before itself.
int64_t documents_in(const MicroBatch& batch) {
  int64_t documents = 0;
  for (int64_t i = 0; i < batch.batch * batch.seq; ++i)
    documents += batch.kv_begin[i] == i % batch.seq ? 1 : 0;
  return documents;
}

}  // namespace

/// Bad data is kept until COUNT_TOKENS, where all ranks learn of it together.
void Executor::load(const plan::Plan& plan, const plan::Instruction& n, Run* run) {
  if (n.micro_batch == 0) {
    load_error_ = nullptr;
    s_.link->wait_sent();
  }
  if (load_error_) return;
  const bool ranks = s_.groups->dp && run->training;
  char* const slot = at(plan, n.writes[0]);
  char* const host = s_.staging.micro_batch(n.micro_batch, slot);
  const MicroBatch batch = MicroBatch::in_slot(host, run->batch, run->seq);
  try {
    run->source->load(n.micro_batch, batch);
  } catch (const Error&) {
    if (!ranks) throw;
    load_error_ = std::current_exception();
    return;
  }
  documents_[static_cast<size_t>(std::max(n.micro_batch, 0))] = run->documents ? documents_in(batch) : 0;
  run->tokens += std::count_if(batch.targets, batch.targets + run->batch * run->seq,
                               [](int32_t t) { return t != -100; });
  s_.link->send(slot, host, MicroBatch::bytes(run->batch, run->seq));
  if (looks_up() && run->training)
    lookup_gradient_.look_up(n.micro_batch, batch.tokens, run->batch * run->seq,
                             static_cast<int32_t>(s_.model->config().padding_token));
}

namespace {

/// What every rank of dp says in COUNT_TOKENS: tokens, wish to stop, and by rank the code of what went wrong.
constexpr size_t kTokens = 0, kCancelled = 1, kCodes = 2;

int64_t code_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Error& e) {
    return static_cast<int64_t>(e.code());
  }
  return 0;
}

}  // namespace

/// Of all ranks, what LOAD counted on each.
void Executor::count_tokens(Run* run) {
  *host_sums_ = {};
  s_.link->send(sums_, host_sums_, sizeof(StepSums));
  if (comm::ProcessGroup* dp = s_.groups->dp.get()) {
    std::fill(agreement_.begin(), agreement_.end(), 0);
    agreement_[kTokens] = run->tokens;
    agreement_[kCancelled] = run->cancelled ? 1 : 0;
    agreement_[kCodes + static_cast<size_t>(dp->rank())] = code_of(load_error_);
    dp->wait(dp->all_reduce_i64(agreement_.data(), static_cast<int64_t>(agreement_.size())));
    fail_together(dp);
    run->tokens = agreement_[kTokens];
    run->cancelled = agreement_[kCancelled] > 0;
  }
  if (run->tokens == 0)
    throw AgreedError(Code::kDataInvalid,
                      "every target of the global batch is masked (-100): there is nothing to learn from");
  host_scalars_->grad_scale = static_cast<float>(1.0 / static_cast<double>(run->tokens));
  s_.link->send(scalars_, host_scalars_, sizeof(StepScalars));
  if (looks_up())
    s_.link->send(lookup_gradient_.numbers(), lookup_gradient_.host_numbers(),
                  lookup_gradient_.numbers_bytes());
}

void Executor::set_scalars(const kernels::OptimizerScalars& scalars) {
  host_scalars_->optimizer = scalars;
  s_.link->send(scalars_, host_scalars_, sizeof(StepScalars));
}

/// Throws on all ranks if one could not load its part of the batch: there with its reason, elsewhere naming
/// it.
void Executor::fail_together(comm::ProcessGroup* dp) {
  if (load_error_) {
    try {
      std::rethrow_exception(std::exchange(load_error_, nullptr));
    } catch (const Error& e) {
      throw AgreedError(e);
    }
  }
  for (size_t r = 0; kCodes + r < agreement_.size(); ++r)
    if (agreement_[kCodes + r] != 0)
      throw AgreedError(
          static_cast<Code>(agreement_[kCodes + r]),
          fmt::format("rank {} could not load its part of the batch; its own error says what is "
                      "wrong with the data",
                      dp->members()[r]));
}

void Executor::sum_losses(ExactSum* sum) {
  s_.link->wait();
  for (const Losses& losses : fetched_losses_)
    for (int64_t i = 0; i < losses.count; ++i) sum->add(static_cast<double>(losses.values[i]));
  fetched_losses_.clear();
}

/// Block by block the squares of what this rank owns; at last their sum, and the losses', over all ranks.
void Executor::grad_norm(const plan::Plan& plan, const plan::Instruction& n, Run* run) {
  if (n.block >= 0) {
    auto* const workspace = as<ExactSum>(plan, n.scratch);
    for (const int32_t g : s_.layout->groups_of(n.block)) {
      if (!s_.layout->group(g).trainable || !s_.counts_norm) continue;
      const StateArray sums = reduced(plan, n.reads[0], g);
      optim::add_squares(&sums_->squares, sums.data, sums.type, state(g).range.size(), workspace, *kernels_,
                         *stream_);
    }
    return;
  }
  StepSums& sums = *host_sums_;
  s_.link->fetch(&sums.squares, &sums_->squares, sizeof(ExactSum));
  sum_losses(&sums.losses);
  if (comm::ProcessGroup* dp = s_.groups->dp.get()) {
    sums.squares.normalise();
    sums.losses.normalise();
    dp->wait(dp->all_reduce_i64(sums.squares.words, kSumsWords));
  }
  run->grad_norm = optim::grad_norm(sums.squares);
  run->losses = sums.losses;
  run->loss_sum = sums.losses.value();
}

}  // namespace hawser::train
