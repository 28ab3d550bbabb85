// Pipeline test: pipelines have the bits of one stage (promise L2): loss, gradient norm, every raw gradient,
// weights and moments.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/harness/answers.h"
#include "tests/harness/layout_cells.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/same_bits.h"
#include "tests/harness/schedules.h"

namespace hawser::testing {
namespace pipeline_test {

using parallel::pipeline::RankChunks;

constexpr int kSteps = 4;

Problem problem_of(bool like_gpt2, int64_t layers) {
  Problem p;
  p.tied = layers != 9;
  p.like_gpt2 = like_gpt2, p.layers = layers;
  return p;
}

/// Returns the records of one stage, computed once for all schedules that are compared with it.
const std::vector<StepRecord>& of_one_stage(const Problem& problem, Layout one) {
  static std::map<std::string, std::vector<StepRecord>> known;
  one.pp = 1, one.chunks = 1, one.schedule = "1f1b", one.layers_of_chunks = {};
  std::vector<StepRecord>& records =
      known[layout_config(problem, one) + (problem.documents ? " documents" : "")];
  if (records.empty()) records = run_layout(problem, one, kSteps);
  return records;
}

void expect_bits(const Problem& problem, const Layout& layout) {
  EXPECT_EQ(first_difference(of_one_stage(problem, layout), run_layout(problem, layout, kSteps)), "")
      << layout.name();
}

/// Tests a third of the cells, a different third each day.
void expect_bits_of_some(const std::vector<Cell>& cells) {
  const uint64_t seed = seed_of_today();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const Cell& cell : sample_of(cells, cells.size() / 3, seed)) expect_bits(cell.problem, cell.layout);
}

TEST(Pipeline, HasTheBitsOfOneStage) {
  for (const std::string& schedule : schedules_of(RankChunks::kOne))
    for (const int64_t pp : {2, 3, 4})
      for (const int64_t micro_batches : {1, 3, 4}) {
        Layout layout;
        layout.pp = pp, layout.schedule = schedule, layout.accumulation = micro_batches;
        expect_bits(problem_of(pp != 3, 4), layout);
      }
}

TEST(Pipeline, ThatGoesDownAndUpHasThemToo) {
  for (const std::string& schedule : schedules_of(RankChunks::kV))
    for (const int64_t pp : {2, 3, 4})
      for (const int64_t more : {0, 1, 4}) {
        Layout layout;
        layout.pp = pp, layout.schedule = schedule, layout.accumulation = 2 * pp + more;
        expect_bits(problem_of(pp != 3, more == 4 ? 9 : 2 * pp), layout);
      }
}

TEST(Pipeline, OfSeveralChunksHasThemToo) {
  for (const std::string& schedule : schedules_of(RankChunks::kConfigured))
    for (const int64_t pp : {2, 3})
      for (const int64_t chunks : {2, 3})
        for (const int64_t micro_batches : {1, 3, 5}) {
          Layout layout;
          layout.pp = pp, layout.schedule = schedule, layout.chunks = chunks;
          layout.accumulation = micro_batches;
          expect_bits(problem_of(true, 9), layout);
        }
}

/// The first and the last stage share a table, trained or not.
TEST(Pipeline, WithoutASharedTableHasThemToo) {
  for (const int64_t stage : {0, 3})
    for (const bool tied : {false, true}) {
      Layout layout;
      layout.pp = 3, layout.dp_shard = 2, layout.stage = stage, layout.accumulation = 4;
      Problem problem = problem_of(false, 4);
      problem.tied = tied;
      problem.frozen_also = {"embedding.*", "blocks.0.*"};
      expect_bits(problem, layout);
      problem.frozen_also = {};
      expect_bits(problem, layout);
    }
}

/// Combines pipelines with every strategy of data parallelism, whose ranks are those of one stage.
TEST(Pipeline, UnderDataParallelismHasThemToo) {
  std::vector<Cell> cells;
  for (const std::string& schedule : all_schedules())
    for (const int64_t stage : {0, 1, 2, 3})
      for (const char* reduce : {"per_step", "per_micro_batch"}) {
        Layout layout;
        layout.pp = 2, layout.schedule = schedule, layout.chunks = chunks_of(schedule);
        layout.dp_shard = 2, layout.dp_replicate = stage % 2 + 1, layout.stage = stage;
        layout.accumulation = 4, layout.reduce = reduce, layout.bucket_bytes = stage < 3 ? 4096 : 0;
        Problem problem = problem_of(stage % 2 == 0, 5);
        problem.optimizer = stage == 1 ? "sgd" : "adamw";
        cells.push_back({problem, layout});
      }
  expect_bits_of_some(cells);
}

/// A bucket of the default size includes all blocks of a rank, even those of several chunks. The next
/// micro-batch reaches the upper chunk before this micro-batch has left the lower chunk.
TEST(Pipeline, ReducesEachMicroBatchInBucketsThatEndWithItsChunks) {
  for (const std::string& schedule : all_schedules())
    for (const int64_t stage : {0, 1})
      for (const bool columns : {false, true}) {
        Layout layout;
        layout.pp = 2, layout.schedule = schedule, layout.chunks = chunks_of(schedule, 2 + stage);
        layout.dp_shard = columns ? 1 : 2, layout.cp = columns ? 2 : 1, layout.stage = stage;
        layout.accumulation = 4, layout.reduce = "per_micro_batch";
        Problem problem = problem_of(!columns, 9);
        problem.tied = stage == 0;
        Layout small = layout;
        small.bucket_bytes = 1;
        expect_bits(problem, layout);
        expect_bits(problem, small);
      }
}

/// Ranks that divide the vocabulary pad it, and the head's stage has only a replica of the table. No
/// instruction on that stage writes the padding of its gradient, whose bytes recomputed activations and reads
/// from a disk have used before.
TEST(Pipeline, PadsTheGradientOfASharedTableWithZeros) {
  for (const char* schedule : {"gpipe", "interleaved"})
    for (const char* reduce : {"per_step", "per_micro_batch"})
      for (const bool recompute : {false, true}) {
        Layout layout;
        layout.pp = layout.tp = 2, layout.schedule = schedule, layout.chunks = chunks_of(schedule);
        layout.dp_shard = reduce[4] == 's' ? 1 : 2, layout.accumulation = 5, layout.reduce = reduce;
        if (recompute) {
          layout.recompute = R"({"policy": "full"})";
          layout.offload = R"({"activations": "disk", "folder": ")" + ::testing::TempDir() + R"("})";
        }
        Problem problem = problem_of(true, 4);
        problem.optimizer = "sgd";
        expect_bits(problem, layout);
      }
}

TEST(Pipeline, OfShardedWeightsThatStayHasThemToo) {
  std::vector<Cell> cells;
  for (const std::string& schedule : all_schedules())
    for (const char* reshard : {"full", "keep", "group"})
      for (const int64_t prefetch : {0, 2}) {
        Layout layout;
        layout.pp = 2, layout.schedule = schedule, layout.chunks = chunks_of(schedule);
        layout.dp_shard = 4, layout.stage = 3, layout.reshard = reshard, layout.prefetch = prefetch;
        layout.reshard_group = reshard[0] == 'g' ? 2 : 0, layout.accumulation = 4;
        cells.push_back({problem_of(true, 4), layout});
      }
  expect_bits_of_some(cells);
}

TEST(Pipeline, OfEveryKindOfNumberHasThemToo) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16", "fp8"})
    for (const char* schedule : {"1f1b", "zb_h1", "zbv"})
      for (const bool frozen : {false, true})
        for (const bool tree : {false, true}) {
          if (tree && precision[0] == 'b' && precision[4] != 0) continue;  // bf16_pure has no tree
          Layout layout;
          layout.pp = 2, layout.dp_shard = 2, layout.accumulation = 4, layout.tree = tree;
          layout.schedule = schedule;
          layout.layers_of_chunks = {3, 1};
          if (layout.schedule == "zbv") layout.layers_of_chunks = {2, 1, 1, 1};
          if (precision[0] == 'b' && precision[4] != 0) layout.gradient_type = "bf16";
          Problem problem = problem_of(true, layout.schedule == "zbv" ? 5 : 4);
          problem.precision = precision, problem.frozen = frozen, problem.documents = frozen;
          problem.tied = layout.gradient_type == "fp32";
          expect_bits(problem, layout);
        }
}

TEST(Pipeline, OfRanksThatComputeBlocksTogetherHasThemToo) {
  for (const auto& [tp, cp] : {std::pair{2, 1}, {1, 2}, {2, 2}})
    for (const char* mode : {"ring", "ulysses"}) {
      Layout layout;
      layout.schedule = mode[0] == 'r' ? "1f1b" : "zb_h1";
      layout.pp = 2, layout.tp = tp, layout.cp = cp, layout.cp_mode = mode, layout.accumulation = 3;
      layout.dp_shard = tp * cp == 2 ? 2 : 1, layout.stage = layout.dp_shard > 1 ? 3 : 0;
      expect_bits(problem_of(true, 4), layout);
    }
}

/// Compares the bytes that the first stage sends, and the memory of every stage.
TEST(Pipeline, SendsAndTakesWhatItsPlansSay) {
  for (const std::string& schedule : all_schedules())
    for (const int64_t stage : {0, 3}) {
      Layout layout;
      layout.pp = 2, layout.schedule = schedule, layout.chunks = chunks_of(schedule);
      layout.dp_shard = stage > 0 ? 2 : 1, layout.stage = stage, layout.accumulation = 5;
      SCOPED_TRACE(layout.name());
      LayoutRun run(problem_of(true, 4), layout);
      run.step();
      const nlohmann::json metrics = nlohmann::json::parse(run.trainer().metrics().json());
      int64_t sent = 0;
      for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions)
        sent += n.sent_bytes;
      EXPECT_EQ(metrics.at("communication_bytes"), sent);
      for (int32_t r = 0; r < layout.world(); ++r) {
        const train::Rank& rank = run.trainer().ranks().at(r);
        EXPECT_EQ(rank.executor().slots().high_water(), rank.plans().train.peak_bytes) << r;
        EXPECT_EQ(rank.executor().slots().live_at_peak(), rank.plans().train.at_peak) << r;
      }
    }
}

/// 1F1B keeps at most as many micro-batches as there are stages, other schedules a fixed number; GPipe keeps
/// all.
TEST(Pipeline, MemoryDoesNotGrowBeyondWhatIsInFlight) {
  const auto peak = [](const std::string& schedule, int64_t micro_batches) {
    Layout layout;
    layout.pp = 2, layout.schedule = schedule, layout.chunks = chunks_of(schedule);
    layout.accumulation = micro_batches;
    LayoutRun run(problem_of(true, 4), layout);
    return run.trainer().ranks().first().plans().train.at_peak[static_cast<size_t>(
        plan::Category::kActivations)];
  };
  for (const std::string& schedule : steady_schedules())
    EXPECT_EQ(peak(schedule, 12), peak(schedule, 6)) << schedule;
  EXPECT_LT(2 * peak("1f1b", 12), peak("gpipe", 12));
}

TEST(Pipeline, AnswersAsOneStageDoes) {
  for (const char* schedule : {"1f1b", "interleaved", "zbv"})
    for (const int64_t columns : {12, 5})
      for (const int64_t tp : {1, 2}) {
        Layout layout;
        layout.pp = 2, layout.schedule = schedule, layout.chunks = chunks_of(schedule);
        layout.tp = tp, layout.dp_shard = 2, layout.stage = 3, layout.accumulation = 4;
        Layout one = layout;
        one.pp = one.chunks = 1;
        SCOPED_TRACE(layout.name());
        const Problem problem = problem_of(tp == 1, 4);
        LayoutRun of_one(problem, one), of_stages(problem, layout);
        const Answers want = ask(of_one.trainer(), problem, columns),
                      got = ask(of_stages.trainer(), problem, columns);
        EXPECT_EQ(got.logits, want.logits);
        EXPECT_EQ(got.logprobs, want.logprobs);
        EXPECT_EQ(got.loss, want.loss);
        EXPECT_EQ(got.text, want.text);
      }
}

/// Full micro-batches are evaluated concurrently, one per stage; the last rows are evaluated alone.
TEST(Pipeline, EvaluatesSeveralMicroBatchesAtOnceAsOneStageDoes) {
  for (const char* schedule : {"1f1b", "interleaved", "zbv"})
    for (const int64_t pp : {2, 3})
      for (const bool documents : {false, true}) {
        Layout layout;
        layout.pp = pp, layout.schedule = schedule, layout.chunks = chunks_of(schedule);
        layout.dp_shard = 2, layout.stage = 3, layout.accumulation = 2 * pp;
        Layout one = layout;
        one.pp = one.chunks = 1;
        Problem problem = problem_of(pp == 2, 6);
        problem.documents = documents;
        LayoutRun of_one(problem, one), of_stages(problem, layout);
        for (const int64_t rows : {4 * pp, 8 * pp + 5, int64_t{3}}) {
          SCOPED_TRACE(layout.name() + " rows " + std::to_string(rows));
          const Rows batch = rows_of(problem, rows, 0);
          const train::BatchView view = batch.view();
          const train::Evaluation want = of_one.trainer().inference().eval(&view, 0),
                                  got = of_stages.trainer().inference().eval(&view, 0);
          EXPECT_EQ(got.loss, want.loss);
          EXPECT_EQ(got.tokens, want.tokens);
          if (rows != 4 * pp) continue;
          for (int32_t r = 0; r < layout.world(); ++r) {
            const train::Rank& rank = of_stages.trainer().ranks().at(r);
            EXPECT_EQ(rank.executor().slots().high_water(), rank.plans().eval_pipeline.peak_bytes) << r;
          }
        }
      }
}

}  // namespace pipeline_test
}  // namespace hawser::testing
