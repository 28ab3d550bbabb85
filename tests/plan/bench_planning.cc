// bench_planning: measures how long it takes to plan a deep model, or many micro-batches.
//
//   bench_planning [ROUNDS [SHAPE]]
//
// Prints, for each shape and ZeRO stage, the training plan's instructions (of the first stage of a pipeline),
// its peak memory and the median seconds of ROUNDS (5) times: all plans of an engine and all its stages, and
// the first training plan's memory and waits alone. The digest covers all plans, so that a faster planner can
// be compared. Nothing is allocated or run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/assembly/engine_plans.h"
#include "engine/base/hash.h"
#include "engine/config/config_tree.h"
#include "engine/nn/model.h"
#include "engine/plan/plan.h"

using namespace hawser;

namespace {

struct Shape {
  const char* name;
  int64_t layers, micro_batches, stages = 1;
  const char* schedule = "1f1b";
};

constexpr Shape kShapes[] = {
    {"80 layers x 128 micro-batches", 80, 128},     {"10,000 layers", 10000, 1},
    {"2 layers x 10,000 micro-batches", 2, 10000},  {"10,000 layers on 4 stages", 10000, 4, 4},
    {"64 stages x 512 micro-batches", 64, 512, 64}, {"zb_h1, the same", 64, 512, 64, "zb_h1"},
    {"zbv, the same", 128, 512, 64, "zbv"}};

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

uint64_t digest_of(const std::vector<train::EnginePlans>& stages) {
  Hash hash;
  const auto add = [&](const plan::Plan& plan) {
    for (const plan::Slot& s : plan.slots)
      hash.add(std::string_view(s.name)).add(s.category).add(s.bytes).add(s.offset).add(s.first).add(s.last);
    for (const plan::Instruction& n : plan.instructions) {
      hash.add(n.op)
          .add(n.micro_batch)
          .add(n.block)
          .add(n.bucket)
          .add(n.lane)
          .add(n.scratch)
          .add(n.sent_bytes);
      for (const plan::Use& use : n.uses) hash.add(use.operand).add(use.slot).add(use.written);
      for (const plan::SlotId slot : n.holds) hash.add(slot);
      for (size_t l = 0; l < plan::kLanes; ++l) hash.add(n.waits_for[static_cast<plan::Lane>(l)]);
    }
    hash.add(plan.commit).add(plan.peak_bytes);
  };
  for (const train::EnginePlans& plans : stages) train::for_each_plan(plans, add);
  return hash.value();
}

void measure(const Shape& shape, int stage, int rounds) {
  nlohmann::json json = {
      {"model",
       {{"vocab_size", 256}, {"context", 64}, {"layers", shape.layers}, {"width", 64}, {"heads", 2}}},
      {"batch", {{"micro_batch", 1}, {"grad_accum_steps", shape.micro_batches}, {"sequence", 64}}},
      {"zero", {{"stage", stage}}},
      {"mesh", {{"dp_shard", stage == 0 ? 1 : 8}, {"pp", shape.stages}}},
      {"train", {{"steps", 1}}}};
  if (shape.stages > 1) json["pipeline"] = {{"schedule", shape.schedule}};
  const config::ResolvedConfig config = config::resolve(config::ConfigTree::from_json(json.dump()));
  const nn::Model model(config.model);
  train::Target target;
  target.kernels = &train::choose_kernels(config);
  std::vector<train::EnginePlans> plans;
  const double all = median_seconds(rounds, [&] { plans = make_stage_plans(model, config, target, false); });
  const plan::Plan& train = plans.front().train;
  const double one = median_seconds(rounds, [&] {
    plan::Plan again = train;
    plan::finish(&again);
  });
  std::printf(
      "%-32s stage %d  %9zu instructions  peak %12lld bytes  all plans %6.3f s  memory and waits %6.3f s  "
      "digest %016llx\n",
      shape.name, stage, train.instructions.size(), static_cast<long long>(train.peak_bytes), all, one,
      static_cast<unsigned long long>(digest_of(plans)));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::string only = argc > 2 ? argv[2] : "";  // shapes whose names contain it
  if (rounds < 1) return std::fprintf(stderr, "usage: bench_planning [ROUNDS [SHAPE]]\n"), 2;
  for (const Shape& shape : kShapes)
    if (std::string(shape.name).find(only) != std::string::npos)
      for (const int stage : {0, 3}) measure(shape, stage, rounds);
}
