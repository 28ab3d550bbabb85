// hws_engine_set_metrics and hws_engine_metrics: pushed and pulled metrics. hws_engine_set_trace and
// hws_engine_trace: when each instruction of a step ran. hws_engine_profile: where the time of steps went.
// hws_engine_flight: what ranks said to others last.
#include "capi/src/buffer.h"
#include "capi/src/engine.h"
#include "capi/src/guard.h"

using namespace hawser::capi;

hws_status hws_engine_set_metrics(hws_engine* engine, hws_metrics_fn callback, void* user,
                                  void (*destroy)(void*)) {
  UserData data(user, destroy);
  std::shared_ptr<Metrics> before, metrics;  // what is not kept goes when the engine is free again
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

hws_status hws_engine_set_trace(hws_engine* engine, int32_t detail) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kExclusive);
    if (detail < HWS_TRACE_OFF || detail > HWS_TRACE_KERNELS) {
      call.invalid("detail",
                   fmt::format("is {}; it is one of HWS_TRACE_OFF (0), HWS_TRACE_INSTRUCTIONS (1) and "
                               "HWS_TRACE_KERNELS (2)",
                               detail));
    }
    use->trainer->traces().set(detail != HWS_TRACE_OFF, detail == HWS_TRACE_KERNELS);
  });
}

namespace {

/// Whether `format` asks for JSON; it may ask for text.
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
    publish_text(use->trainer->traces().report(wants_json(call, format)), out);
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
