// The functions hws_device_*.
#include <cmath>

#include "capi/src/buffer.h"
#include "capi/src/guard.h"
#include "engine/report/device_report.h"

using namespace hawser::capi;

hws_status hws_device_list(hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(hawser::train::device_list_json(), out);
  });
}

namespace {

void check_measurement(const Call& call, int32_t threads, double seconds) {
  call.range(threads, 0, 4096, "threads");
  if (!(seconds >= 0 && seconds <= 3600))
    call.invalid("seconds", fmt::format("is {}; it must lie in [0, 3600]", seconds));
}

}  // namespace

hws_status hws_device_measure(int32_t threads, double seconds, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    check_measurement(call, threads, seconds);
    publish_text(hawser::train::device_measure_json(threads, seconds), out);
  });
}

hws_status hws_device_peak(int32_t threads, const char* precision, double seconds, double* flops) {
  return guard(__func__, [&](const Call& call) {
    check_measurement(call, threads, seconds);
    const std::string_view name = call.text(precision, "precision");
    if (name != "fp32" && name != "bf16")
      call.invalid("precision", fmt::format("is \"{}\"; it must be one of \"fp32\", \"bf16\"", name));
    call.pointer(flops, "flops");
    *flops = hawser::train::device_peak_flops(
        threads, name == "bf16" ? hawser::DType::kBf16 : hawser::DType::kF32, seconds);
  });
}
