// Rewind tests: after an outlier the run goes on from its newest checkpoint, behind the rows of the outlier.
// The outlier is a batch of tokens that the model has not seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/comm/comm.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace rewind_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::expect_equal_tensors;
using testing::ScratchFolder;
using train::Outcome;
using train::Trainer;
using train::TrainRecord;

constexpr int64_t kRows = 6;  // of a step
constexpr int64_t kEvery = 20;

class Rewind : public ::testing::Test {
 protected:
  /// `outliers`: the batches of unseen tokens, counted from 1 by the rows before them. `left_out`: so many
  /// batches after the first `seen` do not exist for this source.
  struct Source {
    std::set<int64_t> outliers;
    int64_t seen = 0, left_out = 0;
  };
  std::unique_ptr<Trainer> make(const std::string& run, const Source& source,
                                const json& guard = json::object(), int ranks = 1,
                                const json& batch = nullptr) {
    config::ConfigTree config = testing::small_config(tokens_);
    config.set("/model/dropout", "{}");
    config.set("/data/packing", "false");
    config.set("/train/steps", "60");
    config.set("/checkpoint", json{{"path", folder_.file(run)}, {"every", kEvery}, {"keep_last", 10}}.dump());
    json all = {{"outlier", "rewind"}, {"outlier_z", 8}};
    all.update(guard);
    config.set("/guard", all.dump());
    if (ranks > 1) {
      config.set("/mesh/dp_shard", std::to_string(ranks));
      config.set("/batch", R"({"micro_batch": 1, "grad_accum_steps": 3, "sequence": 24})");
    }
    if (!batch.is_null()) config.set("/batch", batch.dump());
    auto trainer = Trainer::create(config, false, &cancel_, ranks > 1 ? comm::make_local(ranks) : nullptr);
    trainer->set_source([source](train::SourceRequest* r) { return fill(source, r); });
    return trainer;
  }

  static bool fill(const Source& source, train::SourceRequest* r) {
    int64_t batch = r->samples / kRows + 1;
    if (batch > source.seen) batch += source.left_out;
    const bool outlier = source.outliers.contains(batch);
    for (int64_t i = 0; i < r->rows * r->cols; ++i) {
      const uint32_t word = philox(3, static_cast<uint64_t>(batch * 1000 + i), 0).v[0];
      r->room.tokens[i] = static_cast<int32_t>(outlier ? 45 + word % 8 : 1 + word % 5 * (1 + i % 3));
    }
    for (int64_t i = 0; i < r->rows * r->cols; ++i)
      r->room.targets[i] = i % r->cols + 1 < r->cols ? r->room.tokens[i + 1] : -100;
    return true;
  }

  static std::vector<TrainRecord> train(Trainer& trainer, int64_t until = 0) {
    std::vector<TrainRecord> records;
    trainer.loop().run(until, [&](const TrainRecord& record) {
      records.push_back(record);
      return true;
    });
    return records;
  }

  ScratchFolder folder_;
  std::string tokens_ = testing::write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

/// Returns the steps at which the run went back.
std::vector<int64_t> rewound(const std::vector<TrainRecord>& records) {
  std::vector<int64_t> steps;
  for (const TrainRecord& record : records)
    if (record.result.outcome == Outcome::kRewound) steps.push_back(record.result.step);
  return steps;
}

TEST_F(Rewind, GoesOnFromTheCheckpointBehindTheRows) {
  const auto trainer = make("run", {{46}});
  const std::vector<TrainRecord> records = train(*trainer);
  ASSERT_EQ(rewound(records), std::vector<int64_t>{46});
  ASSERT_EQ(records.size(), 66u);
  EXPECT_EQ(records[45].result.samples, 45 * kRows);
  EXPECT_FALSE(records[45].saved);
  EXPECT_EQ(records[46].result.step, 41);
  EXPECT_EQ(records[46].result.samples, 47 * kRows);
  EXPECT_EQ(records.back().result.step, 60);
  EXPECT_EQ(records.back().result.samples, 66 * kRows);

  // A run without these rows.
  const auto other = make("other", {{46}, 40, 6});
  const std::vector<TrainRecord> plain = train(*other);
  EXPECT_TRUE(rewound(plain).empty());
  EXPECT_EQ(records.back().result.loss, plain.back().result.loss);
  expect_equal_tensors(*trainer, *other);
}

TEST_F(Rewind, GoesOnBehindTheRowsOfASmallStep) {
  const json batch = json::parse(R"({"micro_batch": 3, "sequence": 24,
      "ramp": [{"from_rows": 0, "global_batch": 6}, {"from_rows": 1000, "global_batch": 12}]})");
  const auto trainer = make("run", {{46}}, json::object(), 1, batch);
  const std::vector<TrainRecord> records = train(*trainer);
  ASSERT_EQ(rewound(records), std::vector<int64_t>{46});
  EXPECT_EQ(records[45].result.samples, 45 * kRows);
  EXPECT_EQ(records[46].result.samples, 47 * kRows);
}

TEST_F(Rewind, IsRepeatedByARunThatIsResumed) {
  const auto whole = make("run", {{46, 49}});
  EXPECT_EQ(rewound(train(*whole)), (std::vector<int64_t>{46, 43}));
  fs::remove_all(folder_.file("run/step-60"));
  const auto resumed = make("run", {{46, 49}});
  resumed->loads().load_latest(folder_.file("run"), false);
  EXPECT_EQ(rewound(train(*resumed)), (std::vector<int64_t>{46, 43}));
  expect_equal_tensors(*whole, *resumed);
}

TEST_F(Rewind, CountsReturnsToTheSameCheckpointOnly) {
  const auto trainer = make("run", {{46, 75}}, {{"max_rewinds", 1}});
  const std::vector<TrainRecord> records = train(*trainer, 80);
  EXPECT_EQ(rewound(records), (std::vector<int64_t>{46, 69}));
}

TEST_F(Rewind, StopsAfterTooManyReturnsWithTheCheckpoint) {
  Source source;
  for (int64_t batch = 46; batch < 100; ++batch) source.outliers.insert(batch);
  const auto trainer = make("run", source);
  std::vector<TrainRecord> records;
  try {
    trainer->loop().run(0, [&](const TrainRecord& record) {
      records.push_back(record);
      return true;
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNumeric);
    EXPECT_NE(error.message().find("training stopped at step 41"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("has gone back to the checkpoint of step 40 3 times"), std::string::npos)
        << error.message();
  }
  EXPECT_EQ(rewound(records).size(), 3u);
  EXPECT_FALSE(fs::exists(folder_.file("run/step-45")));
  const auto loaded = make("other", {});
  loaded->loads().load(folder_.file("run/step-40"), false);
  expect_equal_tensors(*trainer, *loaded);
}

TEST_F(Rewind, WithoutACheckpointTheStepIsSkipped) {
  const auto trainer = make("run", {{46}});
  std::vector<Outcome> outcomes;
  for (int i = 0; i < 47; ++i) outcomes.push_back(trainer->train_step().outcome);
  EXPECT_EQ(outcomes[45], Outcome::kSkippedOutlier);
  EXPECT_EQ(outcomes[46], Outcome::kAccepted);
}

TEST_F(Rewind, LeavesOutDamagedAndLaterCheckpoints) {
  train(*make("run", {}), 60);
  std::ofstream(folder_.file("run/step-40/manifest.json")) << "{}";
  const auto trainer = make("run", {{46}});
  std::vector<train::StepResult> results;
  for (int i = 0; i < 47; ++i) results.push_back(trainer->train_step());
  EXPECT_EQ(results[45].outcome, Outcome::kRewound);
  EXPECT_EQ(results[46].step, 21);
}

TEST_F(Rewind, IsTheSameOverRanks) {
  const auto one = make("one", {{46}}), two = make("two", {{46}}, json::object(), 2);
  const std::vector<TrainRecord> a = train(*one), b = train(*two);
  EXPECT_EQ(rewound(a), std::vector<int64_t>{46});
  EXPECT_EQ(rewound(b), std::vector<int64_t>{46});
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(b.back().result.samples, a.back().result.samples);
  EXPECT_NEAR(a.back().result.loss, b.back().result.loss, 1e-4);
}

}  // namespace rewind_test
}  // namespace hawser
