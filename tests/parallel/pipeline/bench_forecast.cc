// bench_forecast: measures how well the simulator predicts a pipeline step from a traced step's own costs.
//
//   bench_forecast [STEPS]
//
// It runs every schedule on 2 and 4 stages, each a rank of one thread, and prints medians over STEPS (5)
// traced steps: their length, the length that the simulator predicts from the same step's costs, the share in
// which ranks are idle, and the difference. With fewer cores than ranks, instructions sometimes take longer;
// their costs include this.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/base/philox.h"
#include "engine/comm/comm.h"
#include "engine/config/config_tree.h"
#include "engine/plan/measured_costs.h"
#include "engine/run/trainer.h"
#include "tests/harness/schedules.h"

using namespace hawser;
using testing::all_schedules, testing::has_configured_chunks;

namespace {

constexpr int64_t kVocabulary = 2048, kCols = 256, kMicroBatches = 8;

struct Step {
  double seconds, predicted, idle;
  double difference() const { return predicted / seconds - 1; }
};

Step foretell(const train::Trainer& trainer, int64_t stages) {
  std::vector<const plan::Plan*> plans;
  std::vector<std::vector<plan::Timeline>> lines;
  for (int64_t s = 0; s < stages; ++s) {
    const auto rank = static_cast<int32_t>(s);
    plans.push_back(&trainer.ranks().at(rank).plans().train);
    lines.push_back({trainer.traces().timeline(rank)});
  }
  const plan::PipelineSummary was = summarise_pipeline(plans, lines);
  return {was.makespan, predict_step(plans, lines).makespan, was.idle};
}

double median(const std::vector<Step>& steps, double (*of)(const Step&)) {
  std::vector<double> values;
  for (const Step& s : steps) values.push_back(of(s));
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void measure(const std::string& schedule, int64_t stages, int count) {
  nlohmann::json pipeline = {{"schedule", schedule}};
  if (has_configured_chunks(schedule)) pipeline["chunks"] = 2;
  const nlohmann::json config = {
      {"model",
       {{"vocab_size", kVocabulary}, {"context", kCols}, {"layers", 16}, {"width", 256}, {"heads", 4}}},
      {"batch", {{"micro_batch", 1}, {"grad_accum_steps", kMicroBatches}, {"sequence", kCols}}},
      {"mesh", {{"pp", stages}}},
      {"pipeline", pipeline},
      {"train", {{"steps", 1000}}},
      {"cpu", {{"threads", stages}}}};
  std::atomic<bool> cancel{false};
  const auto trainer = train::Trainer::create(config::ConfigTree::from_json(config.dump()), false, &cancel,
                                              comm::make_local(static_cast<int32_t>(stages)));
  trainer->traces().set(true);
  std::vector<int32_t> tokens(static_cast<size_t>(kMicroBatches * kCols));
  std::vector<Step> steps;
  for (int i = 0; i < count + 2; ++i) {
    for (size_t t = 0; t < tokens.size(); ++t)
      tokens[t] = static_cast<int32_t>(philox(9, t, static_cast<uint64_t>(i)).v[0] % kVocabulary);
    trainer->push({kMicroBatches, kCols, tokens.data(), tokens.data(), nullptr});
    trainer->train_step();
    if (i >= 2) steps.push_back(foretell(*trainer, stages));
  }
  std::printf(
      "%ld stages %-12s step %7.1f ms, predicted %7.1f ms, idle %4.1f %%, difference %+.1f %% (of any step "
      "at "
      "most %.1f %%)\n",
      static_cast<long>(stages), schedule.c_str(),
      1e3 * median(steps, [](const Step& s) { return s.seconds; }),
      1e3 * median(steps, [](const Step& s) { return s.predicted; }),
      100 * median(steps, [](const Step& s) { return s.idle; }),
      100 * median(steps, [](const Step& s) { return s.difference(); }),
      100 * std::abs(std::max_element(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
                       return std::abs(a.difference()) < std::abs(b.difference());
                     })->difference()));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 5;
  if (steps < 1) return std::fprintf(stderr, "usage: bench_forecast [STEPS]\n"), 2;
  std::printf("on %u cores\n", std::thread::hardware_concurrency());
  for (const int64_t stages : {2, 4})
    for (const std::string& schedule : all_schedules()) measure(schedule, stages, steps);
}
