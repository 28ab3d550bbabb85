// hws_engine_set_metrics and hws_engine_metrics: pushed and pulled metrics. hws_engine_set_trace and
// hws_engine_trace: when each instruction of a step ran. hws_engine_profile: where the time of steps went.
// hws_engine_flight: the last exchanges between ranks.
#include "capi/src/buffer.h"
#include "capi/src/engine.h"
#include "capi/src/guard.h"
#include "capi/src/trace_form.h"

using namespace hawser::capi;

hws_status hws_engine_set_metrics(hws_engine* engine, hws_metrics_fn callback, void* user,
                                  void (*destroy)(void*)) {
  UserData data(user, destroy);
  std::shared_ptr<Metrics> before, metrics;  // declared here so that the one no longer used is destroyed
                                             // after the engine is released
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kExclusive);
    std::function<void(const std::string&)> forward;
    if (callback != nullptr) {
      metrics = std::make_shared<Metrics>(Metrics{callback, std::move(data)});
      forward = [slot = use.slot(), to = metrics.get()](const std::string& json) {
        const auto run = [&] { to->fn(to->user.get(), json.c_str(), json.size()); };
        call_host("hws_engine_set_metrics", slot, Callback::kTrain, run);
      };
    }
    use->trainer->metrics().set_callback(std::move(forward));
    before = std::exchange(use->metrics, std::move(metrics));
  });
}

hws_status hws_engine_metrics(const hws_engine* engine, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(Use<Engine>(call, engine, Access::kAlways)->trainer->metrics().json(), out);
  });
}

namespace {

using hawser::train::Monitor;
using hawser::train::Phase;

static_assert(sizeof(hws_progress) == kProgressSize && offsetof(hws_progress, step) == 8);
static_assert(HWS_PHASE_IDLE == static_cast<int32_t>(Phase::kIdle) &&
              HWS_PHASE_TRAIN == static_cast<int32_t>(Phase::kTrain) &&
              HWS_PHASE_EVAL == static_cast<int32_t>(Phase::kEval) &&
              HWS_PHASE_GENERATE == static_cast<int32_t>(Phase::kGenerate) &&
              HWS_PHASE_SAVE == static_cast<int32_t>(Phase::kSave) &&
              HWS_PHASE_LOAD == static_cast<int32_t>(Phase::kLoad));

hws_progress to_host(const Monitor::View& from, const hawser::train::Trainer& trainer) {
  const hawser::config::BatchConfig& batch = trainer.config().batch;
  hws_progress to = {};
  to.phase = static_cast<int32_t>(from.phase);
  to.step = from.step;
  to.until_step = from.until_step;
  to.total_steps = trainer.config().train.steps;
  to.samples = from.samples;
  to.tokens = from.samples * batch.sequence;
  to.skipped = from.skipped;
  to.done = from.done;
  to.total = from.total;
  to.loss = from.loss;
  to.grad_norm = from.grad_norm;
  to.learning_rate = from.learning_rate;
  to.validation_loss = from.validation_loss;
  to.step_seconds = from.step_seconds;
  to.tokens_per_second = static_cast<double>(from.step_rows * batch.sequence) / from.step_seconds;
  to.running_seconds = from.running_seconds;
  to.save_failures = trainer.saves().saver().failures().count;
  to.saving = trainer.saves().saver().running() ? 1 : 0;
  return to;
}

}  // namespace

hws_status hws_engine_progress(const hws_engine* engine, hws_progress* progress) {
  return guard(__func__, [&](const Call& call) {
    call.pointer(progress, "progress");
    const CopyOut<hws_progress> out(call, progress, kProgressSize, "progress");
    const Use<Engine> use(call, engine, Access::kAlways);
    out.write(to_host(use->trainer->monitor().read(), *use->trainer));
  });
}

hws_status hws_engine_set_trace(hws_engine* engine, int32_t detail) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kExclusive);
    if (detail < HWS_TRACE_OFF || detail > HWS_TRACE_KERNELS) {
      call.invalid("detail",
                   fmt::format("is {}; it must be one of HWS_TRACE_OFF (0), HWS_TRACE_INSTRUCTIONS (1) and "
                               "HWS_TRACE_KERNELS (2)",
                               detail));
    }
    use->trainer->traces().set(detail != HWS_TRACE_OFF, detail == HWS_TRACE_KERNELS);
  });
}

namespace {

/// Returns true if `format` is JSON, false if it is text.
bool wants_json(const Call& call, int32_t format) {
  if (format != HWS_FORMAT_TEXT && format != HWS_FORMAT_JSON) {
    call.invalid("format",
                 fmt::format("is {}; this function takes HWS_FORMAT_TEXT and HWS_FORMAT_JSON", format));
  }
  return format == HWS_FORMAT_JSON;
}

}  // namespace

hws_status hws_engine_trace(const hws_engine* engine, int32_t format, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Engine> use(call, engine, Access::kShared);
    publish_text(use->trainer->traces().report(trace_form(call, format)), out);
  });
}

hws_status hws_engine_profile(const hws_engine* engine, int32_t format, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Engine> use(call, engine, Access::kShared);
    publish_text(use->trainer->traces().profile_report(wants_json(call, format)), out);
  });
}

hws_status hws_engine_flight(const hws_engine* engine, int32_t format, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const bool json = wants_json(call, format);
    publish_text(Use<Engine>(call, engine, Access::kAlways)->trainer->reports().flight(json), out);
  });
}
