// bench_planning: how long the plan of a deep model, or of many micro-batches, takes.
//
//   bench_planning [ROUNDS]
//
// Prints, for each shape and ZeRO stage, the training plan's instructions, its peak memory and the median seconds of
// ROUNDS (5) times: all plans of an engine, and the training plan's memory and waits alone. Nothing is allocated or run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/config/config_tree.h"
#include "engine/nn/model.h"
#include "engine/plan/plan.h"
#include "engine/train/assembly/engine_plans.h"

using namespace hawser;

namespace {

struct Shape {
  const char* name;
  int64_t layers, micro_batches;
};

constexpr Shape kShapes[] = {{"80 layers x 128 micro-batches", 80, 128},
                             {"10,000 layers", 10000, 1},
                             {"2 layers x 10,000 micro-batches", 2, 10000}};

template <class F>
double median_seconds(int rounds, F run) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[static_cast<size_t>(rounds / 2)];
}

void measure(const Shape& shape, int stage, int rounds) {
  const nlohmann::json json = {
      {"model",
       {{"vocab_size", 256}, {"context", 64}, {"layers", shape.layers}, {"width", 64}, {"heads", 2}}},
      {"batch", {{"micro_batch", 1}, {"grad_accum_steps", shape.micro_batches}, {"sequence", 64}}},
      {"zero", {{"stage", stage}}},
      {"mesh", {{"dp_shard", stage == 0 ? 1 : 8}}},
      {"train", {{"steps", 1}}}};
  const config::ResolvedConfig config = config::resolve(config::ConfigTree::from_json(json.dump()));
  const nn::Model model(config.model);
  train::Target target;
  target.kernels = &train::choose_kernels(config);
  plan::Plan train;
  const double all = median_seconds(rounds, [&] { train = make_plans(model, config, target, false).train; });
  const double one = median_seconds(rounds, [&] {
    plan::Plan again = train;
    plan::finish(&again);
  });
  std::printf(
      "%-32s stage %d  %9zu instructions  peak %12lld bytes  all plans %6.3f s  memory and waits %6.3f s\n",
      shape.name, stage, train.instructions.size(), static_cast<long long>(train.peak_bytes), all, one);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  if (rounds < 1) return std::fprintf(stderr, "usage: bench_planning [ROUNDS]\n"), 2;
  for (const Shape& shape : kShapes)
    for (const int stage : {0, 3}) measure(shape, stage, rounds);
}
