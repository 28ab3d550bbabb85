// hws_engine_train and hws_engine_generate: the calls that run callbacks of the host program.
#include <cmath>

#include "capi/src/engine.h"
#include "capi/src/guard.h"

using namespace hawser::capi;
using hawser::train::GenerateRequest;
using hawser::train::TrainRecord;

namespace {

static_assert(sizeof(hws_train_record) == kTrainRecordSize + 8 && offsetof(hws_train_record, step) == 8);
static_assert(offsetof(hws_train_record, validation_loss) == 72 && offsetof(hws_train_record, best) == 100);
static_assert(offsetof(hws_train_record, save_failures) == kTrainRecordSize);
static_assert(offsetof(hws_generate_request, stop_tokens) == kGenerateRequestSize);
static_assert(offsetof(hws_generate_request, prompt) == 8);

hws_train_record to_host(const TrainRecord& from) {
  hws_train_record to = {};
  to.struct_size = sizeof to;
  copy_step(from.result, &to);
  to.validation_loss = from.validation_loss;
  to.tokens_per_second = from.tokens_per_second;
  to.total_steps = from.total_steps;
  to.saved = from.saved ? 1 : 0;
  to.communication_bytes = from.communication_bytes;
  to.best = from.best ? 1 : 0;
  to.save_failures = from.save_failures;
  return to;
}

GenerateRequest from_host(const Call& call, const hws_generate_request* request) {
  const auto host = copy_in(call, request, kGenerateRequestSize, "request");
  call.range(host.prompt_length, 1, INT64_MAX, "request->prompt_length");
  call.array(host.prompt, static_cast<size_t>(host.prompt_length), "request->prompt");
  call.range(host.max_tokens, 0, INT64_MAX, "request->max_tokens");
  call.range(host.top_k, 0, INT64_MAX, "request->top_k");
  call.range(host.stop_token, -1, INT32_MAX, "request->stop_token");
  call.range(host.stop_count, 0, INT64_MAX, "request->stop_count");
  call.array(host.stop_tokens, static_cast<size_t>(host.stop_count), "request->stop_tokens");
  if (!std::isfinite(host.temperature) || host.temperature < 0) {
    call.invalid("request->temperature",
                 fmt::format("is {}; it must be 0 (greedy) or positive", host.temperature));
  }
  if (!(host.top_p > 0 && host.top_p <= 1)) {
    call.invalid("request->top_p",
                 fmt::format("is {}; it must lie in (0, 1], 1 keeps all tokens", host.top_p));
  }
  GenerateRequest result;
  result.prompt = host.prompt;
  result.prompt_length = host.prompt_length;
  result.max_tokens = host.max_tokens;
  result.temperature = host.temperature;
  result.top_k = host.top_k;
  result.top_p = host.top_p;
  result.seed = host.seed;
  if (host.stop_count > 0) result.stop_tokens.assign(host.stop_tokens, host.stop_tokens + host.stop_count);
  if (host.stop_token >= 0) result.stop_tokens.push_back(host.stop_token);
  return result;
}

}  // namespace

hws_status hws_engine_train(hws_engine* engine, int64_t until_step, hws_train_fn callback, void* user,
                            void (*destroy)(void*)) {
  const UserData data(user, destroy);  // destroyed last, when the engine may be used again
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kExclusive);
    call.range(until_step, 0, INT64_MAX, "until_step");
    const auto tell = [&](const TrainRecord& record) {
      if (callback == nullptr) return true;
      const hws_train_record host = to_host(record);
      const auto run = [&] { return callback(data.get(), &host) == 0; };
      return call_host(call.function(), use.slot(), Callback::kTrain, run);
    };
    use->together([&](auto& trainer) { trainer.loop().run(until_step, tell); });
  });
}

hws_status hws_engine_generate(hws_engine* engine, const hws_generate_request* request, hws_token_fn callback,
                               void* user, void (*destroy)(void*)) {
  const UserData data(user, destroy);
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kNested);
    const GenerateRequest what = from_host(call, request);
    if (callback == nullptr) call.invalid("callback", "is NULL; the tokens go to it");
    const auto tell = [&](int32_t token) {
      const auto run = [&] { return callback(data.get(), token) == 0; };
      return call_host(call.function(), use.slot(), Callback::kConstOnly, run);
    };
    use->together([&](auto& trainer) { trainer.inference().generate(what, tell); });
  });
}
