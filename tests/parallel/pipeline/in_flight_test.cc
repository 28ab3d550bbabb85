// In-flight test: compares the number of micro-batches that the plans of stages keep at once, by the slots of
// their blocks, with the integers of the papers, and checks that memory does not grow further with the number
// of micro-batches (marin #6532, pytorch #138119: weight passes that were postponed indefinitely).
#include <gtest/gtest.h>

#include <string_view>

#include "tests/parallel/pipeline/stage_plans.h"

namespace hawser::testing {
namespace in_flight_test {

using parallel::PipelineSchedule;
using parallel::pipeline::Shape;

/// Returns the maximum at one instruction of the sum over live slots; measure(slot) is a slot's addend.
template <typename Measure>
int64_t most_live(const plan::Plan& plan, Measure measure) {
  std::vector<int64_t> change(plan.instructions.size() + 1);
  for (const plan::Slot& slot : plan.slots) {
    if (slot.persistent || slot.first < 0) continue;
    change[static_cast<size_t>(slot.first)] += measure(slot);
    change[static_cast<size_t>(slot.last) + 1] -= measure(slot);
  }
  int64_t live = 0, most = 0;
  for (const int64_t c : change) most = std::max(most, live += c);
  return most;
}

int64_t activation_bytes(const plan::Plan& plan) {
  return most_live(
      plan, [](const plan::Slot& s) { return s.category == plan::Category::kActivations ? s.bytes : 0; });
}

/// Returns the maximum number of live slots with a block's saved state; with `halves`, with its state for
/// weight passes.
int64_t in_flight(const plan::Plan& plan, bool halves) {
  const std::string_view name = halves ? "saved_for_weights" : "saved";
  return most_live(plan, [&](const plan::Slot& s) { return s.name.starts_with(name) ? 1 : 0; });
}

std::vector<int64_t> in_flight(const Shape& shape) {
  std::vector<int64_t> stages;
  for (const plan::Plan& plan : stage_plans(shape))
    stages.push_back(in_flight(plan, parallel::pipeline::splits_backward(shape.schedule)));
  return stages;
}

TEST(InFlight, IsWhatThePapersSay) {
  for (const int64_t p : {1, 2, 3, 4, 8})
    for (const int64_t m : {p, 2 * p, 4 * p}) {
      SCOPED_TRACE("p " + std::to_string(p) + " m " + std::to_string(m));
      const auto all = static_cast<size_t>(p);
      EXPECT_EQ(in_flight({PipelineSchedule::kGpipe, p, m}), std::vector<int64_t>(all, m));
      const std::vector<int64_t> one = in_flight({PipelineSchedule::k1F1B, p, m}),
                                 zero = in_flight({PipelineSchedule::kZbH1, p, m});
      EXPECT_EQ(*std::max_element(zero.begin(), zero.end()), p);
      EXPECT_EQ(zero[0], p);
      for (int64_t i = 0; i < p; ++i) EXPECT_EQ(one[static_cast<size_t>(i)], std::min(m, p - i)) << i;
      for (const int64_t v : {2, 3}) {
        if (p == 1) continue;
        const std::vector<int64_t> kept = in_flight({PipelineSchedule::kInterleaved, p, m, v, p});
        for (int64_t i = 0; i < p; ++i)
          EXPECT_EQ(kept[static_cast<size_t>(i)], m == p ? m * v : p * v + p - 1 - 2 * i) << "stage " << i;
      }
      if (p == 1 || m < 2 * p) continue;
      EXPECT_EQ(in_flight({PipelineSchedule::kZbv, p, m, 2}), std::vector<int64_t>(all, 2 * p));
      EXPECT_EQ(in_flight({PipelineSchedule::kDualPipeV, p, m, 2}), std::vector<int64_t>(all, 2 * p + 1));
    }
}

/// In addition to saved activations, the arena has the rows of every micro-batch, which are loaded before the
/// first forward.
TEST(InFlight, MemoryDoesNotGrowWithMicroBatches) {
  for (const auto& row : parallel::pipeline::kSchedules)
    for (const int64_t p : {2, 4}) {
      const PipelineSchedule schedule = row.schedule;
      if (schedule == PipelineSchedule::kGpipe) continue;
      const int64_t v = parallel::pipeline::has_chunks(schedule) ? 2 : 1;
      const std::vector<plan::Plan> few = stage_plans({schedule, p, 4 * p, v, p}),
                                    many = stage_plans({schedule, p, 64, v, p});
      for (size_t s = 0; s < few.size(); ++s) {
        SCOPED_TRACE(std::string(parallel::pipeline::schedule_name(schedule)) + " p " + std::to_string(p) +
                     " stage " + std::to_string(s));
        EXPECT_EQ(activation_bytes(many[s]), activation_bytes(few[s]));
        EXPECT_LE(many[s].peak_bytes - few[s].peak_bytes, (64 - 4 * p) * 64);
      }
    }
  const std::vector<plan::Plan> few = stage_plans({PipelineSchedule::kGpipe, 4, 8}),
                                many = stage_plans({PipelineSchedule::kGpipe, 4, 64});
  EXPECT_GT(activation_bytes(many[0]), 7 * activation_bytes(few[0]));
}

}  // namespace in_flight_test
}  // namespace hawser::testing
