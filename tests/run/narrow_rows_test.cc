// Narrow rows tests: a micro-batch of prepared rows is computed up to its longest row. Losses and gradients
// are those of rows that are computed in full, which are pushed here, and layouts with equal bits keep them.
#include <gtest/gtest.h>

#include "engine/comm/comm.h"
#include "tests/data/data_files.h"
#include "tests/data/prepared_files.h"
#include "tests/harness/small_config.h"

namespace hawser::train {
namespace narrow_rows_test {

using testing::ScratchFolder;
using testing::small_config;

constexpr int64_t kCols = 64, kRows = 120;

class NarrowRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    data::PreparedFiles files;
    files.cols = kCols, files.packed = false;
    for (int64_t row = 0; row < kRows; ++row) {
      const auto number = static_cast<uint64_t>(row);
      const int64_t length = 3 + philox(4, number, 0).v[0] % (kCols - 2);
      for (int64_t t = 0; t < kCols; ++t) {
        files.tokens.push_back(t < length ? 1 + philox(5, number, static_cast<uint64_t>(t)).v[0] % 40 : 0);
        files.marks.push_back(t == 0 || t == length ? data::kDocumentBegin
                              : t < length          ? data::kTargetToken
                                                    : 0);
      }
    }
    files.write(folder_.file("rows"), [](data::PreparedManifest* m) { m->vocabulary = 50; });
  }
  std::unique_ptr<Trainer> make(const std::string& mesh, bool data = true) {
    config::ConfigTree config = small_config(folder_.file("unused"));
    config.set("/data", data ? R"({"format": "prepared", "validation_fraction": 0, "path": ")" +
                                   folder_.file("rows") + R"("})"
                             : "{}");
    config.set("/batch", R"({"micro_batch": 2, "global_batch": 8, "sequence": 64})");
    config.set("/model/context", "64");
    config.set("/mesh", mesh);
    return Trainer::create(config, false, &cancel_, mesh == "{}" ? nullptr : comm::make_local(2));
  }

  ScratchFolder folder_;
  std::atomic<bool> cancel_{false};
};

TEST_F(NarrowRowsTest, StepsAreThoseOfWholeRows) {
  const auto narrow = make("{}"), whole = make("{}", false);
  std::vector<int32_t> begins;
  int64_t columns = 0;
  for (int step = 0; step < 5; ++step) {
    data::OwnedRows rows(8, kCols);
    const auto first = static_cast<uint64_t>(step * 8);
    narrow->dataset()->read(data::Split::kTrain, first, rows.view());
    columns += narrow->dataset()->columns(first, 2, 16);
    whole->push({8, kCols, rows.tokens.data(), rows.targets.data(), rows.kv_begin.data()});
    const StepResult a = narrow->train_step(), b = whole->train_step();
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_NEAR(a.loss, b.loss, 1e-6 * b.loss);
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-5 * b.grad_norm);
  }
  EXPECT_LT(columns, 5 * kCols) << "some micro-batch is narrower";
}

TEST_F(NarrowRowsTest, LayoutsKeepTheBits) {
  const auto one = make("{}"), stages = make(R"({"pp": 2})"), ranks = make(R"({"dp_shard": 2})"),
             replicas = make(R"({"dp_replicate": 2})"), columns = make(R"({"cp": 2})"),
             tensors = make(R"({"tp": 2})");
  for (int step = 0; step < 4; ++step) {
    const StepResult a = one->train_step(), b = stages->train_step(), c = ranks->train_step(),
                     d = replicas->train_step();
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.grad_norm, b.grad_norm);
    EXPECT_EQ(c.loss, d.loss);
    EXPECT_EQ(c.grad_norm, d.grad_norm);
    for (Trainer* const other : {columns.get(), tensors.get()}) {
      const StepResult e = other->train_step();
      EXPECT_EQ(e.tokens, a.tokens);
      EXPECT_NEAR(e.loss, a.loss, 1e-5 * a.loss);
    }
  }
}

TEST_F(NarrowRowsTest, AResumedRunFindsTheSameRowsAndColumns) {
  const auto whole = make("{}"), half = make("{}");
  for (int step = 0; step < 4; ++step) whole->train_step(), half->train_step();
  half->saves().save(folder_.file("half"));
  const auto resumed = make("{}");
  resumed->loads().load(folder_.file("half"), false);
  for (int step = 0; step < 20; ++step) {  // over the end of an epoch, which has 15 steps
    const StepResult a = whole->train_step(), b = resumed->train_step();
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.grad_norm, b.grad_norm);
  }
}

}  // namespace narrow_rows_test
}  // namespace hawser::train
