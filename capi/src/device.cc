// hws_device_*.
#include <cmath>

#include "capi/src/buffer.h"
#include "capi/src/guard.h"
#include "engine/train/trainer.h"

using namespace hawser::capi;

int32_t hws_device_list(hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(hawser::train::device_list_json(), out);
  });
}

int32_t hws_device_measure(int32_t threads, double seconds, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    call.range(threads, 0, 4096, "threads");
    if (!(seconds >= 0 && seconds <= 3600)) {
      call.invalid("seconds", fmt::format("is {}; it must lie in [0, 3600]", seconds));
    }
    publish_text(hawser::train::device_measure_json(threads, seconds), out);
  });
}
