// Prepared data test: rows of prepared folders are read unchanged with their targets, and damaged folders are
// refused.
#include <set>

#include "tests/data/data_files.h"
#include "tests/data/prepared_files.h"

namespace hawser::data {
namespace prepared_test {

constexpr uint8_t kNew = kDocumentBegin, kTold = kTargetToken;

class PreparedTest : public DataTest {
 protected:
  /// Returns three rows of four tokens; the first holds two documents, the second has an unused rest.
  static PreparedFiles three_rows() {
    PreparedFiles files;
    files.tokens = {10, 11, 12, 13, 20, 21, 0, 0, 30, 31, 32, 33};
    files.marks = {kNew, kTold, kNew, kTold, kNew, kTold, kNew, 0, kNew, 0, kTold, kTold};
    return files;
  }
  DataConfig config() const {
    DataConfig config;
    config.format = DataFormat::kPrepared;
    config.sources = {{path("p")}};
    config.validation_fraction = 0;
    config.packing = true;
    config.shuffle = false;
    return config;
  }
  std::unique_ptr<Dataset> open(const DataConfig& config, int64_t cols = 4, int64_t vocabulary = 100) const {
    return Dataset::open(config, Vocabulary(), 7, cols, vocabulary);
  }
  void expect_damage(const std::vector<std::string>& texts) const {
    expect_error(Code::kDataInvalid, texts, [&] { open(config()); });
  }
};

TEST_F(PreparedTest, RowsComeWholeWithTheirDocumentsAndWhatTheyTeach) {
  three_rows().write(path("p"));
  const auto dataset = open(config());
  ASSERT_EQ(dataset->train_samples(), 3);
  const OwnedRows rows = read_rows(*dataset, Split::kTrain, 0, 3, 4);
  EXPECT_EQ(rows.tokens, (std::vector<int32_t>{10, 11, 12, 13, 20, 21, 0, 0, 30, 31, 32, 33}));
  EXPECT_EQ(rows.targets,
            (std::vector<int32_t>{11, -100, 13, -100, 21, -100, -100, -100, -100, 32, 33, -100}));
  EXPECT_EQ(rows.kv_begin, (std::vector<int32_t>{0, 0, 2, 2, 0, 0, 2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(rows.positions, (std::vector<int32_t>{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3}));
}

TEST_F(PreparedTest, EachEpochHasEachRowOnceInAnotherOrder) {
  PreparedFiles files;
  files.packed = false;
  for (uint32_t i = 0; i < 64 * 4; ++i) {
    files.tokens.push_back(i / 4);
    files.marks.push_back(i % 4 == 0 ? kNew : kTold);
  }
  files.write(path("p"));
  DataConfig shuffled = config();
  shuffled.shuffle = true;
  const auto dataset = open(shuffled);
  std::vector<std::vector<int32_t>> orders;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    const OwnedRows rows = read_rows(*dataset, Split::kTrain, epoch * 64, 64, 4);
    std::vector<int32_t> order;
    for (size_t row = 0; row < 64; ++row) order.push_back(rows.tokens[row * 4 + 3]);
    orders.push_back(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, counting<int32_t>(64));
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST_F(PreparedTest, ValidationIsWholeRows) {
  three_rows().write(path("p"));
  DataConfig half = config();
  half.validation_fraction = 0.5;
  const auto dataset = open(half);
  EXPECT_EQ(dataset->train_samples(), 1);
  EXPECT_EQ(dataset->validation_samples(), 2);
  EXPECT_EQ(read_rows(*dataset, Split::kValidation, 0, 1, 4).tokens, (std::vector<int32_t>{20, 21, 0, 0}));
  half.validation_fraction = 0.01;  // at least one row
  EXPECT_EQ(open(half)->validation_samples(), 1);
  DataConfig own = config();
  own.validation_sources = own.sources;
  EXPECT_EQ(open(own)->validation_samples(), 3);
  EXPECT_EQ(open(own)->train_samples(), 3);
}

/// Row r of source s consists of the token 50 s + r.
class PairsTest : public PreparedTest {
 protected:
  DataConfig pairs(int64_t of_first, int64_t of_second) const {
    DataConfig c = config();
    c.packing = false, c.shuffle = true, c.pairs = true;
    c.sources.clear();
    for (const auto& [name, count] : {std::pair("a", of_first), std::pair("b", of_second)}) {
      PreparedFiles files;
      files.packed = false;
      for (int64_t i = 0; i < count * 2 * 4; ++i) {
        files.tokens.push_back(static_cast<uint32_t>(50 * static_cast<int64_t>(c.sources.size()) + i / 4));
        files.marks.push_back(i % 4 == 0 ? kNew : kTold);
      }
      files.write(path(name), [](PreparedManifest* manifest) { manifest->pairs = true; });
      c.sources.push_back({path(name)});
    }
    return c;
  }
};

TEST_F(PairsTest, RowsOfAPairComeTogetherInEveryEpochAndPart) {
  DataConfig c = pairs(12, 5);
  c.sources[0].weight = 3;
  c.validation_fraction = 0.3;
  const auto dataset = open(c);
  EXPECT_EQ(dataset->train_samples(), 2 * (8 + 3));
  EXPECT_EQ(dataset->validation_samples(), 2 * (4 + 2));
  std::set<int32_t> seen, held_out;
  const OwnedRows rows = read_rows(*dataset, Split::kTrain, 0, 96, 4);
  for (size_t row = 0; row < 96; row += 2) {
    const int32_t chosen = rows.tokens[row * 4], rejected = rows.tokens[row * 4 + 4];
    EXPECT_EQ(chosen % 2, 0) << "the chosen answer is first";
    EXPECT_EQ(rejected, chosen + 1);
    seen.insert(chosen);
  }
  EXPECT_EQ(seen.size(), 11u);
  const OwnedRows others = read_rows(*dataset, Split::kValidation, 0, 12, 4);
  for (size_t row = 0; row < 12; row += 2) {
    EXPECT_EQ(others.tokens[row * 4 + 4], others.tokens[row * 4] + 1);
    EXPECT_EQ(seen.count(others.tokens[row * 4]), 0u) << "no pair is in both parts";
  }
}

TEST_F(PairsTest, EachRowFindsItsReference) {
  DataConfig c = pairs(6, 4);
  c.validation_fraction = 0.25;
  const auto dataset = open(c);
  const int64_t count = dataset->stored_rows();
  ASSERT_EQ(count, 20);
  const OwnedRows stored = read_rows(*dataset, Split::kStored, 0, count, 4);
  std::vector<float> references;
  for (int64_t row = 0; row < count; ++row)
    references.push_back(static_cast<float>(stored.tokens[static_cast<size_t>(row * 4)]));
  dataset->set_references(references);
  for (const Split split : {Split::kTrain, Split::kValidation}) {
    const int64_t n = split == Split::kTrain ? 40 : dataset->validation_samples();
    OwnedRows rows = read_rows(*dataset, split, 0, n, 4);
    std::vector<float> found(static_cast<size_t>(n));
    dataset->read(split, 0,
                  {rows.tokens.data(), rows.targets.data(), nullptr, nullptr, n, 4, nullptr, found.data()});
    for (size_t row = 0; row < found.size(); ++row)
      EXPECT_EQ(found[row], static_cast<float>(rows.tokens[row * 4])) << row;
  }
}

TEST_F(PairsTest, PairsAndOthersAreNotMistakenForEachOther) {
  DataConfig c = pairs(2, 2);
  c.pairs = false;
  expect_error(Code::kConfigInvalid, {"/objective/kind", "are pairs", "dpo"}, [&] { open(c); });
  three_rows().write(path("p"));
  DataConfig singles = config();
  singles.pairs = true;
  expect_error(Code::kConfigInvalid, {"/objective/kind", "are not pairs", "chosen"}, [&] { open(singles); });
  three_rows().write(path("odd"), [](PreparedManifest* manifest) { manifest->pairs = true; });
  singles.sources = {{path("odd")}};
  expect_error(Code::kDataInvalid, {"prepared.json", "3 rows, packed, cannot be pairs"},
               [&] { open(singles); });
}

TEST_F(PreparedTest, WithoutDocumentsTheMaskMayBeOff) {
  PreparedFiles files = three_rows();
  files.packed = false;
  files.write(path("p"));
  DataConfig off = config();
  off.packing = false;
  const OwnedRows row = read_rows(*open(off), Split::kTrain, 1, 1, 4);
  EXPECT_EQ(row.kv_begin, (std::vector<int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(row.positions, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(row.targets, (std::vector<int32_t>{21, -100, -100, -100}));
}

TEST_F(PreparedTest, TheFingerprintHoldsTheFiles) {
  three_rows().write(path("p"));
  const std::string before = open(config())->fingerprint({open(config())->digest_share(0, 1)});
  PreparedFiles other = three_rows();
  other.marks[9] = kTold;
  std::filesystem::remove_all(path("p"));
  other.write(path("p"));
  EXPECT_NE(open(config())->fingerprint({open(config())->digest_share(0, 1)}), before);
}

TEST_F(PreparedTest, SettingsThatContradictTheRows) {
  three_rows().write(path("p"));
  expect_error(Code::kConfigInvalid, {"/batch/sequence", "has rows of 4", "set it to 4"},
               [&] { open(config(), 8); });
  DataConfig off = config();
  off.packing = false;
  expect_error(Code::kConfigInvalid, {"/data/packing", "several documents"}, [&] { open(off); });
  expect_error(Code::kDataInvalid, {"token 8", "is 30", "vocabulary of 30"}, [&] { open(config(), 4, 30); });
}

TEST_F(PreparedTest, DamagedFolders) {
  three_rows().write(path("p"));
  write("p/marks.bin", std::string(12, '\1'));
  expect_damage({"marks.bin", "digest", "prepare the data again"});
  write("p/marks.bin", "short");
  expect_damage({"marks.bin", "has 5 bytes", "take 12"});
  write("p/prepared.json", "{\"hawser\": \"prepared rows\", \"version\": 1}");
  expect_damage({"prepared.json", "has no \"rows\""});
  write("p/prepared.json", "[]");
  expect_damage({"prepared.json", "is not the manifest"});
  three_rows().write(path("p"), [](PreparedManifest* manifest) { manifest->rows = int64_t{1} << 52; });
  expect_damage({"are too many"});
  std::filesystem::remove(path("p/prepared.json"));
  expect_error(Code::kNotFound, {"prepared.json"}, [&] { open(config()); });
}

}  // namespace prepared_test
}  // namespace hawser::data
