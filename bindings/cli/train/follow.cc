// Implements the train callback of ranks other than 0.
#include "bindings/cli/train/follow.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/train/sample.h"

namespace hawser::cli {
namespace {

struct Follower {
  hws_engine* engine;
  int64_t sample_every;  ///< 0: no samples
  const PromptSamples& samples;
  CallbackError error;
};

int32_t on_step(void* user, const hws_train_record* record) {
  auto* follower = static_cast<Follower*>(user);
  return follower->error.hold([&] {
    if (follower->samples.due(*record)) follower->samples.answer(follower->engine, record->step);
    if (follower->sample_every == 0 || record->step % follower->sample_every != 0) return 0;
    std::string text;
    const int32_t status = draw_sample(follower->engine, record->step, &text);
    if (status != HWS_CANCELLED) check(status);
    return 0;
  });
}

}  // namespace

int follow(hws_engine* engine, int64_t sample_every, const PromptSamples& samples) {
  const auto info = parse_json(text_of(hws_engine_info, static_cast<const hws_engine*>(engine)));
  if (info.at("step").get<int64_t>() >= info.at("total_steps").get<int64_t>()) return kExitOk;
  Follower follower{engine, can_draw_samples(engine) ? sample_every : 0, samples, {}};
  int32_t status = HWS_OK;
  {
    const InterruptScope interrupt;
    status = hws_engine_train(engine, 0, on_step, &follower, nullptr);
  }
  follower.error.rethrow();
  if (status == HWS_CANCELLED) return kExitInterrupted;
  check(status);
  return kExitOk;
}

}  // namespace hawser::cli
