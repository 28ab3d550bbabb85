#include "engine/report/ramp_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hawser::train {
namespace {

/// Returns the peak of the stage that needs most.
int64_t peak_bytes(const std::vector<EnginePlans>& stages, int64_t micro_batches) {
  int64_t most = 0;
  for (const EnginePlans& plans : stages) most = std::max(most, plans.train_of(micro_batches).peak_bytes);
  return most;
}

}  // namespace

std::string ramp_text(const config::BatchConfig& batch, const std::vector<EnginePlans>& stages,
                      const StepSeconds& seconds) {
  if (!batch.has_sizes()) return "";
  std::string text =
      fmt::format("batch ramp      {:>14} {:>12} {:>14} {:>14}{}\n", "from rows", "rows of step",
                  "micro-batches", "bytes at peak", seconds ? "      seconds" : "");
  for (const config::RampSize& size : batch.ramp) {
    const int64_t micro_batches = batch.micro_batches(size.global_batch);
    text += fmt::format("  {:>28} {:>12} {:>14} {:>14}", size.from_rows, size.global_batch, micro_batches,
                        peak_bytes(stages, micro_batches));
    text += seconds ? fmt::format(" {:>12.4f}\n", seconds(micro_batches)) : "\n";
  }
  return text + "  the rest of this report describes the largest step\n";
}

OrderedJson ramp_json(const config::BatchConfig& batch, const std::vector<EnginePlans>& stages,
                      const StepSeconds& seconds) {
  OrderedJson json;
  if (!batch.has_sizes()) return json;
  for (const config::RampSize& size : batch.ramp) {
    const int64_t micro_batches = batch.micro_batches(size.global_batch);
    json.push_back({{"from_rows", size.from_rows},
                    {"global_batch", size.global_batch},
                    {"micro_batches", micro_batches},
                    {"peak_bytes", peak_bytes(stages, micro_batches)}});
    if (seconds) json.back()["seconds"] = seconds(micro_batches);
  }
  return json;
}

RunLength run_length(const config::BatchConfig& batch, double rows, const StepSeconds& seconds) {
  if (!batch.has_sizes()) {
    const double steps = std::ceil(rows / static_cast<double>(batch.global_batch));
    return {steps, steps * seconds(batch.grad_accum_steps)};
  }
  constexpr double kMostRows = 1e18;
  const auto all = static_cast<int64_t>(std::min(kMostRows, std::ceil(rows)));
  RunLength length;
  for (size_t i = 0; i < batch.ramp.size(); ++i) {
    const int64_t begin = std::min(all, batch.ramp[i].from_rows),
                  end = i + 1 < batch.ramp.size() ? std::min(all, batch.ramp[i + 1].from_rows) : all;
    const auto steps = static_cast<double>(config::steps_of_rows(batch.ramp, end) -
                                           config::steps_of_rows(batch.ramp, begin));
    length.steps += steps;
    if (steps > 0) length.seconds += steps * seconds(batch.micro_batches(batch.ramp[i].global_batch));
  }
  return length;
}

}  // namespace hawser::train
