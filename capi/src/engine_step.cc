// hws_engine_train_step, _forward_backward, _commit and _discard: the transactional step.
#include "capi/src/engine.h"
#include "capi/src/guard.h"

using namespace hawser::capi;
using hawser::train::Outcome;

namespace {

static_assert(sizeof(hws_step_result) == kStepResultSize && offsetof(hws_step_result, outcome) == 4);
static_assert(offsetof(hws_step_result, step) == 8 && offsetof(hws_step_result, seconds) == 64);
static_assert(HWS_STEP_ACCEPTED == static_cast<int32_t>(Outcome::kAccepted));
static_assert(HWS_STEP_SKIPPED_NON_FINITE == static_cast<int32_t>(Outcome::kSkippedNonFinite));
static_assert(HWS_STEP_SKIPPED_OUTLIER == static_cast<int32_t>(Outcome::kSkippedOutlier));
static_assert(HWS_STEP_DISCARDED == static_cast<int32_t>(Outcome::kDiscarded));
static_assert(HWS_STEP_PENDING == static_cast<int32_t>(Outcome::kPending));
static_assert(HWS_STEP_SKIPPED_OVERFLOW == static_cast<int32_t>(Outcome::kSkippedOverflow));
static_assert(HWS_STEP_REWOUND == static_cast<int32_t>(Outcome::kRewound));

/// Runs one phase of a step, or both: checks, does `work` on the trainer, writes the result.
template <typename Work>
int32_t step(const char* function, hws_engine* engine, hws_step_result* result, Work&& work) noexcept {
  return guard(function, [&](const Call& call) {
    const CopyOut<hws_step_result> out(call, result, kStepResultSize, "result");
    const Use<Engine> use(call, engine, Access::kExclusive);
    hws_step_result host = {};
    copy_step(use->together(work), &host);
    out.write(host);
  });
}

}  // namespace

hws_status hws_engine_train_step(hws_engine* engine, hws_step_result* result) {
  return step(__func__, engine, result, [](auto& trainer) { return trainer.train_step(); });
}

hws_status hws_engine_forward_backward(hws_engine* engine, hws_step_result* result) {
  return step(__func__, engine, result, [](auto& trainer) { return trainer.forward_backward(); });
}

hws_status hws_engine_backward_with(hws_engine* engine, const hws_batch* batch, const float* gradients,
                                    size_t gradients_bytes, hws_step_result* result) {
  return guard(__func__, [&](const Call& call) {
    const CopyOut<hws_step_result> out(call, result, kStepResultSize, "result");
    const Use<Engine> use(call, engine, Access::kExclusive);
    const hawser::train::BatchView view = batch_view(call, batch, true);
    if (view.weights != nullptr)
      call.invalid("batch->weights", "must be NULL: multiply the gradients by the weights");
    const auto count = static_cast<size_t>(view.rows * view.cols);
    if (gradients_bytes != count * sizeof(float))
      call.invalid("gradients_bytes", fmt::format("is {}; {} x {} floats take {}", gradients_bytes, view.rows,
                                                  view.cols, count * sizeof(float)));
    call.array(gradients, count, "gradients");
    hws_step_result host = {};
    copy_step(use->together([&](auto& trainer) { return trainer.backward_with(view, gradients); }), &host);
    out.write(host);
  });
}

hws_status hws_engine_commit(hws_engine* engine, hws_step_result* result) {
  return step(__func__, engine, result, [](auto& trainer) { return trainer.commit(); });
}

hws_status hws_engine_discard(hws_engine* engine, int32_t rewind, hws_step_result* result) {
  return step(__func__, engine, result, [&](auto& trainer) { return trainer.discard(rewind != 0); });
}
