// Length groups test: rows of similar length are neighbours, each epoch has each row once, and rows without
// their padding are the beginning of whole rows.
#include "engine/data/length_groups.h"

#include <algorithm>

#include "engine/base/philox.h"
#include "tests/data/data_files.h"
#include "tests/data/prepared_files.h"

namespace hawser::data {
namespace length_groups_test {

constexpr int64_t kCols = 64, kRows = 331, kGroup = 8;

class LengthGroupsTest : public DataTest {
 protected:
  /// Row r has 2 to 64 tokens, of which the first is r.
  void SetUp() override {
    PreparedFiles files;
    files.cols = kCols, files.packed = false;
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t length = 2 + philox(9, static_cast<uint64_t>(row), 0).v[0] % (kCols - 1);
      lengths_.push_back(length);
      for (int64_t t = 0; t < kCols; ++t) {
        files.tokens.push_back(static_cast<uint32_t>(t == 0 ? row : t < length ? 1 : 0));
        files.marks.push_back(t == 0 || t == length ? kDocumentBegin : t < length ? kTargetToken : 0);
        files.weights.push_back(t < length ? 0.5f : 1.0f);
      }
    }
    files.write(path("p"));
  }
  std::unique_ptr<Dataset> open(int64_t group, uint64_t seed = 7) const {
    DataConfig config;
    config.format = DataFormat::kPrepared;
    config.sources = {{path("p")}};
    config.validation_fraction = 0;
    config.packing = true;
    config.length_group = group;
    return Dataset::open(config, Vocabulary(), seed, kCols, 1000);
  }
  static std::vector<int64_t> order(const Dataset& dataset, uint64_t first, int64_t rows) {
    const OwnedRows read = read_rows(dataset, Split::kTrain, first, rows, kCols);
    std::vector<int64_t> order;
    for (int64_t row = 0; row < rows; ++row) order.push_back(read.tokens[static_cast<size_t>(row * kCols)]);
    return order;
  }

  std::vector<int64_t> lengths_;
};

TEST_F(LengthGroupsTest, EachEpochHasEachRowOnceInAnOrderOfItsOwn) {
  const auto dataset = open(kGroup), same = open(kGroup), other = open(kGroup, 8);
  std::vector<std::vector<int64_t>> orders;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> rows = order(*dataset, epoch * kRows, kRows);
    EXPECT_EQ(rows, order(*same, epoch * kRows, kRows)) << "a function of the seed";
    orders.push_back(rows);
    std::sort(rows.begin(), rows.end());
    for (int64_t row = 0; row < kRows; ++row) EXPECT_EQ(rows[static_cast<size_t>(row)], row);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  EXPECT_NE(orders[0], order(*other, 0, kRows));
}

/// 331 rows are no multiple of 8, so later epochs begin within a global batch.
TEST_F(LengthGroupsTest, AGlobalBatchHasRowsOfSimilarLengthInEveryEpoch) {
  const auto columns = [&](const Dataset& dataset) {
    int64_t sum = 0;
    for (uint64_t step = 0; step < 4 * kRows / kGroup; ++step)
      sum += dataset.columns(step * kGroup, kGroup, 1);
    return static_cast<double>(sum) / (4 * kRows / kGroup);
  };
  double mean = 0;
  for (const int64_t length : lengths_) mean += static_cast<double>(length) / kRows;
  EXPECT_LT(columns(*open(kGroup)), 1.25 * mean);
  EXPECT_EQ(columns(*open(0)), kCols) << "rows that are not grouped";
  std::vector<int64_t> widths;
  const auto dataset = open(kGroup);
  for (uint64_t step = 0; step < 12; ++step) widths.push_back(dataset->columns(step * kGroup, kGroup, 1));
  EXPECT_FALSE(std::is_sorted(widths.begin(), widths.end())) << "groups come in random order";
  EXPECT_FALSE(std::is_sorted(widths.rbegin(), widths.rend()));
}

TEST_F(LengthGroupsTest, ColumnsHoldTheLongestRowAndAreRoundedUp) {
  const auto dataset = open(kGroup);
  for (uint64_t first = 0; first < 40; first += 4) {
    int64_t longest = 0;
    for (const int64_t row : order(*dataset, first, 4))
      longest = std::max(longest, lengths_[static_cast<size_t>(row)]);
    EXPECT_EQ(dataset->columns(first, 4, 1), longest);
    EXPECT_EQ(dataset->columns(first, 4, 16), std::min<int64_t>(kCols, (longest + 15) / 16 * 16));
  }
}

TEST_F(LengthGroupsTest, NarrowRowsAreTheBeginningOfWholeRows) {
  const auto dataset = open(kGroup);
  for (uint64_t first = 0; first < 40; first += 4) {
    const int64_t cols = dataset->columns(first, 4, 1);
    OwnedRows whole(4, kCols), narrow(4, cols);
    std::vector<float> weights(4 * kCols), narrow_weights(static_cast<size_t>(4 * cols));
    Rows a = whole.view(), b = narrow.view();
    a.weights = weights.data(), b.weights = narrow_weights.data();
    dataset->read(Split::kTrain, first, a);
    dataset->read(Split::kTrain, first, b);
    for (int64_t i = 0; i < 4 * cols; ++i) {
      const int64_t from = i / cols * kCols + i % cols;
      EXPECT_EQ(b.tokens[i], a.tokens[from]);
      EXPECT_EQ(b.targets[i], a.targets[from]);
      EXPECT_EQ(b.positions[i], a.positions[from]);
      EXPECT_EQ(b.kv_begin[i], a.kv_begin[from]);
      if (b.targets[i] >= 0) {
        EXPECT_EQ(b.weights[i], a.weights[from]);
      }
    }
    for (int64_t i = 0; i < 4 * kCols; ++i)
      if (i % kCols >= cols) {
        EXPECT_EQ(a.targets[i], -100) << "nothing is lost";
      }
    OwnedRows cut(4, cols - 1);
    expect_error(Code::kInvalidArgument, {"rows of 4 x"},
                 [&] { dataset->read(Split::kTrain, first, cut.view()); });
  }
}

TEST_F(LengthGroupsTest, TheFingerprintTellsTheOrdersApart) {
  EXPECT_NE(open(kGroup)->fingerprint(), open(0)->fingerprint());
  EXPECT_NE(open(kGroup)->fingerprint(), open(2 * kGroup)->fingerprint());
}

}  // namespace length_groups_test
}  // namespace hawser::data
