// See machine_limits.h. The figures are the library's own (hws_device_measure).
#include "tests/bench/machine_limits.h"

#include <nlohmann/json.hpp>

#include "tests/golden/engine_session.h"

namespace hawser::bench {

double MachineLimits::step_seconds(const std::string& precision, double flops, int64_t parameters) const {
  constexpr double kOptimizerBytes = 28;
  return flops / (precision == "bf16" ? bf16_flops : fp32_flops) +
         kOptimizerBytes * static_cast<double>(parameters) / bytes_per_second;
}

MachineLimits measure_limits(int32_t threads, double seconds) {
  hws_buffer* text = nullptr;
  golden::check(hws_device_measure(threads, seconds, &text), "hws_device_measure");
  const auto measured = nlohmann::json::parse(golden::take_text(text));
  return {measured.at("fp32_gflops").get<double>() * 1e9, measured.at("bf16_gflops").get<double>() * 1e9,
          measured.at("bandwidth_gbs").get<double>() * 1e9};
}

}  // namespace hawser::bench
