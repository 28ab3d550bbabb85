// hws_engine_set_metrics and hws_engine_metrics: pushed and pulled metrics.
#include "capi/src/buffer.h"
#include "capi/src/engine.h"
#include "capi/src/guard.h"

using namespace hawser::capi;

int32_t hws_engine_set_metrics(hws_engine* engine, hws_metrics_fn fn, void* user, void (*destroy)(void*)) {
  UserData data(user, destroy);
  std::shared_ptr<Metrics> before, metrics;  // what is not kept goes when the engine is free again
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kExclusive);
    std::function<void(const std::string&)> forward;
    if (fn != nullptr) {
      metrics = std::make_shared<Metrics>(Metrics{fn, std::move(data)});
      forward = [slot = use.slot(), to = metrics.get()](const std::string& json) {
        const auto run = [&] { to->fn(to->user.get(), json.c_str(), json.size()); };
        call_host("hws_engine_set_metrics", slot, Callback::kTrain, run);
      };
    }
    use->trainer->set_metrics(std::move(forward));
    before = std::exchange(use->metrics, std::move(metrics));
  });
}

int32_t hws_engine_metrics(const hws_engine* engine, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(Use<Engine>(call, engine, Access::kAlways)->trainer->metrics_json(), out);
  });
}
