// hws_engine_use_average; hws_engine_eval, _forward, _logprobs and _top_logprobs, which use a model without
// changing it; and the checks of a batch.
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
  if (host.references != nullptr)
    call.array(host.references, static_cast<size_t>(host.rows), "batch->references");
  call.range(host.teacher_top, 0, host.teacher_ids || host.teacher_logprobs ? INT32_MAX : 0,
             "batch->teacher_top");
  const bool addressable =
      host.teacher_top == 0 || count <= static_cast<size_t>(PTRDIFF_MAX / sizeof(int32_t) / host.teacher_top);
  if (!addressable) call.invalid("batch->teacher_top", "makes the arrays larger than the address space");
  const size_t pairs = count * static_cast<size_t>(host.teacher_top);
  if (host.teacher_ids != nullptr) call.array(host.teacher_ids, pairs, "batch->teacher_ids");
  if (host.teacher_logprobs != nullptr) call.array(host.teacher_logprobs, pairs, "batch->teacher_logprobs");
  BatchView view;
  view.rows = host.rows;
  view.cols = host.cols;
  view.tokens = host.tokens;
  view.targets = host.targets;
  view.document_begin = host.document_begin;
  view.weights = host.weights;
  view.references = host.references;
  view.teacher_top = host.teacher_top;
  view.teacher_ids = host.teacher_ids;
  view.teacher_logprobs = host.teacher_logprobs;
  return view;
}

}  // namespace hawser::capi

hws_status hws_engine_use_average(hws_engine* engine, int32_t on) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kExclusive);
    call.range(on, 0, 1, "on");
    use->together([&](auto& trainer) { trainer.use_average(on != 0); });
  });
}

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

namespace {

/// Checks an array that a call writes while it reads the batch.
template <class Result>
void check_results(const Call& call, const BatchView& view, const Result* results, size_t bytes,
                   const char* name) {
  static_assert(sizeof(Result) == sizeof(float));
  if (bytes % sizeof(float) != 0) {
    call.invalid(fmt::format("{}_bytes", name).c_str(),
                 fmt::format("is {}, not a multiple of {}", bytes, sizeof(float)));
  }
  call.pointer(results, name);
  call.array(results, bytes / sizeof(float), name);
  const size_t read = static_cast<size_t>(view.rows * view.cols) * sizeof(int32_t);
  for (const void* input :
       {static_cast<const void*>(view.tokens), static_cast<const void*>(view.targets),
        static_cast<const void*>(view.document_begin), static_cast<const void*>(view.weights)}) {
    if (input != nullptr && overlap(input, read, results, bytes)) {
      call.invalid(name, "overlaps the arrays of the batch; give it memory of its own");
    }
  }
}

}  // namespace

hws_status hws_engine_forward(hws_engine* engine, const hws_batch* batch, float* logits,
                              size_t logits_bytes) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kNested);
    const BatchView view = batch_view(call, batch, false);
    check_results(call, view, logits, logits_bytes, "logits");
    use->together([&](auto& trainer) { trainer.inference().forward(view, logits, logits_bytes); });
  });
}

hws_status hws_engine_logprobs(hws_engine* engine, const hws_batch* batch, float* logprobs,
                               size_t logprobs_bytes) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kNested);
    const BatchView view = batch_view(call, batch, true);
    check_results(call, view, logprobs, logprobs_bytes, "logprobs");
    use->together([&](auto& trainer) { trainer.inference().logprobs(view, logprobs, logprobs_bytes); });
  });
}

hws_status hws_engine_top_logprobs(hws_engine* engine, const hws_batch* batch, int64_t top, int32_t* ids,
                                   size_t ids_bytes, float* logprobs, size_t logprobs_bytes) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kNested);
    const BatchView view = batch_view(call, batch, false);
    call.range(top, 1, INT32_MAX, "top");
    check_results(call, view, ids, ids_bytes, "ids");
    check_results(call, view, logprobs, logprobs_bytes, "logprobs");
    if (overlap(ids, ids_bytes, logprobs, logprobs_bytes))
      call.invalid("logprobs", "overlaps ids; give it memory of its own");
    use->together([&](auto& trainer) {
      trainer.inference().top_logprobs(view, top, {ids, ids_bytes / sizeof(int32_t)},
                                       {logprobs, logprobs_bytes / sizeof(float)});
    });
  });
}
