// Schedule test: compares schedules with the integers of their papers, using an obvious simulation
// (pipeline_replay.h), and checks the guarantees of every schedule: each action once, micro-batches
// ascending, no deadlock.
#include "engine/parallel/pipeline/schedule.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/parallel/pipeline/play.h"

namespace hawser::testing {
namespace schedule_test {

using parallel::PipelineSchedule;
using parallel::pipeline::RankChunks, parallel::pipeline::Shape;
using plan::Action, plan::Part;

std::string text(const Shape& s) {
  return std::string(parallel::pipeline::schedule_name(s.schedule)) + " of " + std::to_string(s.stages) +
         " stages, " + std::to_string(s.micro_batches) + " micro-batches, " + std::to_string(s.chunks) +
         " chunks in groups of " + std::to_string(s.group);
}

/// Calls fn for all shapes up to these sizes.
template <typename Fn>
void each_shape(int64_t most_stages, int64_t most_micro_batches, Fn fn) {
  for (int64_t p = 1; p <= most_stages; ++p)
    for (int64_t m = 1; m <= most_micro_batches; ++m) {
      for (const auto& row : parallel::pipeline::kSchedules) {
        if (row.chunks == RankChunks::kOne) fn(Shape{row.schedule, p, m});
        for (int64_t v = 2; v <= 4 && row.chunks == RankChunks::kConfigured; ++v)
          for (const int64_t group : {p, p + 1, std::max(p, m)}) fn(Shape{row.schedule, p, m, v, group});
        if (row.chunks == RankChunks::kV && m >= 2 * p) fn(Shape{row.schedule, p, m, 2});
      }
    }
}

TEST(Schedules, TakeEachActionOnceAndMicroBatchesInOrder) {
  each_shape(5, 12, [](const Shape& shape) {
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      std::set<std::tuple<Part, int32_t, int32_t>> seen;
      std::map<std::pair<Part, int32_t>, int32_t> next;
      for (const Action& a : actions(shape, stage)) {
        EXPECT_TRUE(seen.insert({a.part, a.chunk, a.micro_batch}).second) << text(shape);
        EXPECT_EQ(a.micro_batch, (next[{a.part, a.chunk}]++)) << text(shape);
      }
      const int64_t parts = parallel::pipeline::splits_backward(shape.schedule) ? 3 : 2;
      EXPECT_EQ(std::ssize(seen), parts * shape.chunks * shape.micro_batches) << text(shape);
    }
  });
}

TEST(Schedules, NeverWaitForEver) {
  each_shape(8, 20, [](const Shape& shape) { EXPECT_TRUE(play(shape).ends) << text(shape); });
}

TEST(Schedules, TakeAndKeepWhatTheirPapersSay) {
  for (int64_t p = 1; p <= 8; ++p)
    for (int64_t m = 1; m <= 40; ++m) {
      const Played all = play({PipelineSchedule::kGpipe, p, m}), one = play({PipelineSchedule::k1F1B, p, m});
      EXPECT_EQ(all.makespan, 3 * (m + p - 1));
      EXPECT_EQ(one.makespan, 3 * (m + p - 1));
      for (int64_t i = 0; i < p; ++i) {
        EXPECT_EQ(all.in_flight[static_cast<size_t>(i)], m);
        EXPECT_EQ(one.in_flight[static_cast<size_t>(i)], std::min(m, p - i));
      }
      if (m < p) continue;
      const Played zero = play({PipelineSchedule::kZbH1, p, m});
      EXPECT_EQ(zero.makespan, 3 * m + p - 1) << "p " << p << " m " << m;
      for (const int64_t kept : zero.in_flight) EXPECT_LE(kept, p);
      EXPECT_EQ(zero.in_flight[0], p);
    }
}

TEST(Schedules, OfAVTakeAndKeepWhatTheirPapersSay) {
  for (int64_t p = 1; p <= 8; ++p)
    for (int64_t m = 2 * p; m <= 6 * p; ++m) {
      const Played zbv = play({PipelineSchedule::kZbv, p, m, 2}),
                   dual = play({PipelineSchedule::kDualPipeV, p, m, 2}),
                   piece = play({PipelineSchedule::kDualPipeV, p, m, 2}, true);
      SCOPED_TRACE("p " + std::to_string(p) + " m " + std::to_string(m));
      EXPECT_EQ(zbv.makespan, 6 * m + p - 1);
      EXPECT_EQ(zbv.in_flight, std::vector<int64_t>(static_cast<size_t>(p), 2 * p));
      EXPECT_EQ(zbv.idle, std::vector<int64_t>(static_cast<size_t>(p), 0));
      EXPECT_EQ(dual.makespan, 6 * m + p - 1);
      EXPECT_EQ(dual.in_flight, std::vector<int64_t>(static_cast<size_t>(p), 2 * p + 1));
      EXPECT_EQ(piece.makespan, 6 * m + 2 * (p - 1));
    }
}

TEST(Schedules, InterleavedTakesAndKeepsWhatItsPaperSays) {
  for (int64_t p = 1; p <= 8; ++p)
    for (int64_t v = 2; v <= 4; ++v)
      for (int64_t m = p; m <= 5 * p; m += p) {
        const Played played = play({PipelineSchedule::kInterleaved, p, m, v, p});
        EXPECT_EQ(played.makespan, 3 * m * v + 3 * (p - 1)) << "p " << p << " m " << m << " v " << v;
        for (int64_t i = 0; i < p; ++i)
          EXPECT_EQ(played.in_flight[static_cast<size_t>(i)], m == p ? m * v : p * v + p - 1 - 2 * i)
              << "p " << p << " m " << m << " v " << v << " stage " << i;
      }
}

}  // namespace schedule_test
}  // namespace hawser::testing
