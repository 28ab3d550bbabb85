#include "tests/harness/same_bits.h"

#include <gtest/gtest.h>

#include "tests/harness/reference_run.h"
#include "tests/harness/schedules.h"

namespace hawser::testing {

void expect_same_bits(const Problem& problem, const Layout& one, const Layout& other, int steps) {
  EXPECT_EQ(first_difference(reference_run(problem, one, steps), run_layout(problem, other, steps)), "")
      << one.name() << " and " << other.name() << "\n"
      << layout_config(problem, other);
}

void expect_stages_same_bits(const Problem& problem, const Layout& ddp, int steps) {
  for (const int64_t stage : {1, 2, 3}) {
    Layout layout = ddp;
    layout.stage = stage, layout.bucket_bytes = stage == 1 ? 4096 : 0;
    expect_same_bits(problem, ddp, layout, steps);
  }
}

void expect_stages_same_bits(const Problem& problem, int steps) {
  Layout ddp;
  ddp.dp_shard = 3, ddp.accumulation = 2;
  for (const char* precision : {"fp32", "bf16", "bf16_pure"}) {
    Problem in_precision = problem;
    in_precision.precision = precision;
    expect_stages_same_bits(in_precision, ddp, steps);
  }
}

TwoStages::TwoStages(const Problem& base, const std::string& schedule) : problem(base) {
  problem.layers = 4;
  one.accumulation = two.accumulation = 4;
  two.pp = 2, two.schedule = schedule;
  two.chunks = chunks_of(schedule);
}

std::vector<std::string> steady_schedules() {
  std::vector<std::string> names = all_schedules();
  std::erase(names, "gpipe");
  return names;
}

void expect_schedules_same_bits(const Problem& base, int steps) {
  for (const std::string& schedule : steady_schedules()) {
    auto [problem, one, two] = TwoStages(base, schedule);
    expect_same_bits(problem, one, two, steps);
    if (schedule != "zb_h1") continue;
    one.dp_shard = two.dp_shard = 2, two.stage = 3;
    expect_same_bits(problem, one, two, steps);
  }
}

}  // namespace hawser::testing
