// Looking at a model without changing it: hws_engine_eval and _forward, and what a batch must be.
#include "capi/src/engine.h"
#include "capi/src/guard.h"

using namespace hawser::capi;
using hawser::train::BatchView;

static_assert(offsetof(hws_batch, weights) == kBatchSize && offsetof(hws_batch, rows) == 8);
static_assert(offsetof(hws_batch, tokens) == 24);

namespace hawser::capi {

BatchView batch_view(const Call& call, const hws_batch* batch, bool needs_targets) {
  const hws_batch host = copy_in(call, batch, kBatchSize, "batch");
  call.range(host.reserved, 0, 0, "batch->reserved");
  call.range(host.rows, 1, INT64_MAX, "batch->rows");
  call.range(host.cols, 1, INT64_MAX, "batch->cols");
  if (host.rows > PTRDIFF_MAX / static_cast<ptrdiff_t>(sizeof(int32_t)) / host.cols) {
    call.invalid("batch",
                 fmt::format("is {} x {} tokens, more than the address space holds", host.rows, host.cols));
  }
  const auto count = static_cast<size_t>(host.rows * host.cols);
  call.array(host.tokens, count, "batch->tokens");
  if (needs_targets || host.targets != nullptr) call.array(host.targets, count, "batch->targets");
  if (host.document_begin != nullptr) call.array(host.document_begin, count, "batch->document_begin");
  if (host.weights != nullptr) call.array(host.weights, count, "batch->weights");
  BatchView view;
  view.rows = host.rows;
  view.cols = host.cols;
  view.tokens = host.tokens;
  view.targets = host.targets;
  view.document_begin = host.document_begin;
  view.weights = host.weights;
  return view;
}

}  // namespace hawser::capi

hws_status hws_engine_eval(hws_engine* engine, const hws_batch* batch, int64_t max_batches, double* loss,
                           int64_t* tokens) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kNested);
    call.pointer(loss, "loss");
    call.optional(tokens, "tokens");
    call.range(max_batches, 0, INT64_MAX, "max_batches");
    BatchView view;
    if (batch != nullptr) view = batch_view(call, batch, true);
    const auto evaluation = use->together([&](auto& trainer) {
      return trainer.inference().eval(batch != nullptr ? &view : nullptr, max_batches);
    });
    *loss = evaluation.loss;
    if (tokens != nullptr) *tokens = evaluation.tokens;
  });
}

hws_status hws_engine_forward(hws_engine* engine, const hws_batch* batch, float* logits,
                              size_t logits_bytes) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kNested);
    const BatchView view = batch_view(call, batch, false);
    if (logits_bytes % sizeof(float) != 0) {
      call.invalid("logits_bytes", fmt::format("is {}, no multiple of {}", logits_bytes, sizeof(float)));
    }
    call.pointer(logits, "logits");
    call.array(logits, logits_bytes / sizeof(float), "logits");
    const size_t bytes = static_cast<size_t>(view.rows * view.cols) * sizeof(int32_t);
    const void* inputs[] = {view.tokens, view.targets, view.document_begin, view.weights};
    for (const void* input : inputs) {
      if (input != nullptr && overlap(input, bytes, logits, logits_bytes)) {
        call.invalid("logits", "overlaps the arrays of the batch; give it memory of its own");
      }
    }
    use->together([&](auto& trainer) { trainer.inference().forward(view, logits, logits_bytes); });
  });
}
