// Dataset test: rows by sample number: windows, splits, epochs, mixtures, resume, fingerprints and refusals.
#include "engine/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "engine/data/fingerprint.h"
#include "tests/data/data_files.h"

namespace hawser::data {
namespace dataset_test {

class DatasetTest : public DataTest {
 protected:
  static std::unique_ptr<Dataset> open(const DataConfig& config, int64_t cols, uint64_t seed = 1,
                                       int64_t vocab_size = 0) {
    return Dataset::open(config, Vocabulary(), seed, cols, vocab_size);
  }
  DataConfig bytes_config(const std::vector<DataSource>& sources) const {
    DataConfig config;
    config.format = DataFormat::kText;
    config.vocabulary = VocabularyKind::kBytes;
    config.sources = sources;
    config.validation_fraction = 0;
    return config;
  }
};

TEST_F(DatasetTest, WindowsFollowOneAnotherAndShareOneToken) {
  DataConfig config = tokens_config({{write_tokens("a", counting<uint32_t>(13))}});
  config.shuffle = false;
  const auto dataset = open(config, 4);
  EXPECT_EQ(dataset->train_samples(), 3);
  EXPECT_EQ(dataset->train_tokens(), 12);
  EXPECT_EQ(dataset->validation_samples(), 0);
  const OwnedRows rows = read_rows(*dataset, Split::kTrain, 0, 4, 4);
  EXPECT_EQ(rows.tokens, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(rows.targets, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4}));
  EXPECT_EQ(rows.positions, (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(rows.kv_begin, std::vector<int32_t>(16, 0));
}

TEST_F(DatasetTest, EachSampleComesOncePerEpochInAnotherOrder) {
  const auto dataset = open(tokens_config({{write_tokens("a", counting<uint32_t>(301))}}), 3);
  ASSERT_EQ(dataset->train_samples(), 100);
  std::vector<std::vector<int32_t>> orders;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const OwnedRows rows = read_rows(*dataset, Split::kTrain, epoch * 100, 100, 3);
    std::vector<int32_t> order;
    for (size_t r = 0; r < 100; ++r) order.push_back(rows.tokens[r * 3]);
    orders.push_back(order);
    std::sort(order.begin(), order.end());
    for (int32_t w = 0; w < 100; ++w) EXPECT_EQ(order[static_cast<size_t>(w)], 3 * w);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST_F(DatasetTest, TheSeedAndNothingElseSetsTheOrder) {
  const DataConfig config = tokens_config({{write_tokens("a", counting<uint32_t>(500))}});
  const auto a = open(config, 4, 1), b = open(config, 4, 1), c = open(config, 4, 2);
  EXPECT_EQ(read_rows(*a, Split::kTrain, 7, 50, 4), read_rows(*b, Split::kTrain, 7, 50, 4));
  EXPECT_FALSE(read_rows(*a, Split::kTrain, 7, 50, 4) == read_rows(*c, Split::kTrain, 7, 50, 4));
}

TEST_F(DatasetTest, AnyCursorGivesTheSameRows) {
  DataConfig config = tokens_config({{write_tokens("a", counting<uint32_t>(200)), 2},
                                     {write_tokens("b", counting<uint32_t>(90, 1000)), 1},
                                     {write_tokens("c", counting<uint32_t>(333, 5000)), 0.5}});
  config.packing = true;
  config.separator = 17;
  const auto dataset = open(config, 5);
  const OwnedRows whole = read_rows(*dataset, Split::kTrain, 0, 400, 5);
  for (size_t start = 0; start < 400; ++start) {
    const OwnedRows row = read_rows(*dataset, Split::kTrain, start, 1, 5);
    for (size_t t = 0; t < 5; ++t) {
      ASSERT_EQ(row.tokens[t], whole.tokens[start * 5 + t]);
      ASSERT_EQ(row.targets[t], whole.targets[start * 5 + t]);
      ASSERT_EQ(row.positions[t], whole.positions[start * 5 + t]);
      ASSERT_EQ(row.kv_begin[t], whole.kv_begin[start * 5 + t]);
    }
  }
}

TEST_F(DatasetTest, SourcesMixByWeightAndEachKeepsItsEpochs) {
  const auto dataset = open(tokens_config({{write_tokens("a", counting<uint32_t>(41)), 3},
                                           {write_tokens("b", counting<uint32_t>(101, 1000)), 1}}),
                            4);
  const OwnedRows rows = read_rows(*dataset, Split::kTrain, 0, 400, 4);
  std::map<int32_t, int> seen;
  for (size_t r = 0; r < 400; ++r) ++seen[rows.tokens[r * 4]];
  for (int32_t w = 0; w < 10; ++w) EXPECT_EQ(seen[4 * w], 30);        // 300 samples, 30 epochs of 10
  for (int32_t w = 0; w < 25; ++w) EXPECT_EQ(seen[1000 + 4 * w], 4);  // 100 samples, 4 epochs of 25
}

TEST_F(DatasetTest, TheSplitSharesNoToken) {
  DataConfig config = tokens_config({{write_tokens("a", counting<uint32_t>(1000))}});
  config.validation_fraction = 0.1;
  const auto dataset = open(config, 7);
  EXPECT_EQ(dataset->train_samples(), 899 / 7);
  EXPECT_EQ(dataset->validation_samples(), 99 / 7);
  EXPECT_EQ(dataset->validation_tokens(), 98);
  const OwnedRows train = read_rows(*dataset, Split::kTrain, 0, dataset->train_samples(), 7);
  const OwnedRows validation = read_rows(*dataset, Split::kValidation, 0, dataset->validation_samples(), 7);
  EXPECT_LT(*std::max_element(train.targets.begin(), train.targets.end()), 900);
  EXPECT_EQ(validation.tokens[0], 900);
  for (size_t i = 0; i < validation.tokens.size(); ++i) {
    EXPECT_EQ(validation.tokens[i], 900 + static_cast<int32_t>(i));  // in order, from the start
  }
}

TEST_F(DatasetTest, TheSplitIsThatOfTheUsualScripts) {
  // The split begins at int(0.9 * N) of N = 1115394 characters, where the nanoGPT example cuts its text.
  DataConfig config = tokens_config({{write_tokens("a", counting<uint32_t>(1115394))}});
  config.validation_fraction = 0.1;
  const auto dataset = open(config, 64);
  EXPECT_EQ(read_rows(*dataset, Split::kValidation, 0, 1, 64).tokens[0], 1003854);
}

TEST_F(DatasetTest, ValidationSourcesAreReadWhole) {
  DataConfig config = tokens_config({{write_tokens("a", counting<uint32_t>(100))}});
  config.validation_fraction = 0.1;  // the default, which validation_sources override
  config.validation_sources = {{write_tokens("b", counting<uint32_t>(9, 500))},
                               {write_tokens("c", counting<uint32_t>(13, 700))}};
  const auto dataset = open(config, 4);
  EXPECT_EQ(dataset->train_samples(), 24);
  ASSERT_EQ(dataset->validation_samples(), 5);
  const OwnedRows rows = read_rows(*dataset, Split::kValidation, 0, 5, 4);
  for (size_t r = 0; r < 5; ++r) {
    EXPECT_EQ(rows.tokens[r * 4], (std::vector<int32_t>{500, 504, 700, 704, 708})[r]);
  }
  EXPECT_EQ(read_rows(*dataset, Split::kValidation, 3, 1, 4).tokens[0], 704);
  expect_error(Code::kOutOfRange, {"of 5"}, [&] { read_rows(*dataset, Split::kValidation, 4, 2, 4); });
  expect_error(Code::kOutOfRange, {"of 5"},
               [&] { read_rows(*dataset, Split::kValidation, ~uint64_t{0}, 2, 4); });
}

TEST_F(DatasetTest, CharactersBecomeRows) {
  const std::string text = "ab\u00e9ba\u00e9abab";
  DataConfig config = bytes_config({{write("a", text)}});
  config.vocabulary = VocabularyKind::kCharacters;
  config.shuffle = false;
  const Vocabulary vocabulary = Vocabulary::characters_of({path("a")});
  const auto dataset = Dataset::open(config, vocabulary, 0, 3, 3);
  const OwnedRows rows = read_rows(*dataset, Split::kTrain, 0, 3, 3);
  EXPECT_EQ(rows.tokens, (std::vector<int32_t>{0, 1, 2, 1, 0, 2, 0, 1, 0}));
  EXPECT_EQ(rows.targets, (std::vector<int32_t>{1, 2, 1, 0, 2, 0, 1, 0, 1}));
  expect_error(Code::kConfigInvalid, {"/model/vocab_size", "3 distinct"},
               [&] { Dataset::open(config, vocabulary, 0, 3, 2); });
  expect_error(Code::kConfigInvalid, {"/data/vocabulary"},
               [&] { Dataset::open(config, Vocabulary::bytes(), 0, 3, 256); });
}

TEST_F(DatasetTest, TooShortNamesNeededAndFound) {
  write_tokens("a", counting<uint32_t>(8));
  EXPECT_NO_THROW(open(tokens_config({{path("a")}}), 7));
  expect_error(Code::kDataInvalid, {path("a"), "found 8 tokens", "at least 9", "batch.sequence 8"},
               [&] { open(tokens_config({{path("a")}}), 8); });
  DataConfig config = tokens_config({{write_tokens("b", counting<uint32_t>(100))}});
  config.validation_fraction = 0.1;
  expect_error(Code::kDataInvalid,
               {path("b"), "found 10 tokens of 100 in the validation part", "at least 11"},
               [&] { open(config, 10); });
  config.validation_fraction = 0.95;
  expect_error(Code::kDataInvalid, {path("b"), "found 5 tokens of 100 in the training part"},
               [&] { open(config, 10); });
  for (const char* name : {"empty.bin"}) {
    write(name, "");
    expect_error(Code::kDataInvalid, {name, "no tokens"}, [&] { open(tokens_config({{path(name)}}), 4); });
  }
  expect_error(Code::kNotFound, {"absent"}, [&] { open(tokens_config({{path("absent")}}), 4); });
  expect_error(Code::kInvalidArgument, {"a directory"}, [&] { open(tokens_config({{path("")}}), 4); });
}

TEST_F(DatasetTest, TokensThatGoBadAfterOpeningAreFoundWhenRead) {
  std::vector<uint32_t> tokens = counting<uint32_t>(9);
  DataConfig config = tokens_config({{write_tokens("a", tokens)}});
  config.shuffle = false;
  const auto dataset = open(config, 4, 1, 50257);
  const uint32_t bad = 70000;
  std::fstream file(path("a"), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(32).write(reinterpret_cast<const char*>(&bad), 4).flush();
  EXPECT_NO_THROW(read_rows(*dataset, Split::kTrain, 0, 1, 4));
  expect_error(Code::kDataInvalid, {path("a"), "token 8", "byte offset 32", "is 70000", "50257"},
               [&] { read_rows(*dataset, Split::kTrain, 1, 1, 4); });
}

TEST_F(DatasetTest, TokensOutsideTheVocabularyAreFoundWhenOpened) {
  std::vector<uint32_t> tokens = counting<uint32_t>(9);
  tokens[8] = 70000;
  DataConfig config = tokens_config({{write_tokens("a", tokens)}});
  config.shuffle = false;
  expect_error(Code::kDataInvalid, {path("a"), "token 8", "byte offset 32", "is 70000", "50257"},
               [&] { open(config, 4, 1, 50257); });
  EXPECT_NO_THROW(read_rows(*open(config, 4), Split::kTrain, 1, 1, 4));  // not checked
  expect_error(Code::kDataInvalid, {"token 5 ", "is 5,"},
               [&] { read_rows(*open(config, 4, 1, 5), Split::kTrain, 1, 1, 4); });
  expect_error(Code::kDataInvalid, {"token 1 ", "is 1,"},
               [&] { read_rows(*open(config, 4, 1, 1), Split::kTrain, 0, 1, 4); });
  tokens[0] = 0x80000000u;
  write_tokens("a", tokens);
  expect_error(Code::kDataInvalid, {"token 0 ", "is 2147483648", "not a token id"},
               [&] { read_rows(*open(config, 4), Split::kTrain, 0, 1, 4); });
  write_tokens<int16_t>("m.bin", {1, 2, -3, 4, 5});
  write("m.idx", MegatronIndex::of({5}, {0}, 3, 2).bytes());
  config.sources = {{path("m")}};
  config.format = DataFormat::kMegatron;
  expect_error(Code::kDataInvalid, {path("m.bin"), "token 2 ", "is -3", "of 100 tokens"},
               [&] { read_rows(*open(config, 4, 1, 100), Split::kTrain, 0, 1, 4); });
}

TEST_F(DatasetTest, SettingsThatContradictEachOther) {
  const DataConfig good = tokens_config({{write_tokens("a", counting<uint32_t>(100))}});
  const auto expect_config = [&](const char* pointer, auto&& change) {
    DataConfig config = good;
    change(&config);
    expect_error(Code::kConfigInvalid, {pointer}, [&] { open(config, 4, 1, 1000); });
  };
  expect_config("/data/format", [](DataConfig* c) { c->format = DataFormat::kNone; });
  expect_config("/data/sources", [](DataConfig* c) { c->sources.clear(); });
  expect_config("/data/separator", [](DataConfig* c) { c->packing = true; });
  expect_config("/data/separator", [](DataConfig* c) { c->separator = 1000; });
  expect_config("/data/separator",
                [](DataConfig* c) { c->format = DataFormat::kMegatron, c->separator = 0; });
  expect_config("/data/validation_fraction", [](DataConfig* c) { c->validation_fraction = 1; });
  expect_config("/data/validation_fraction", [](DataConfig* c) { c->validation_fraction = NAN; });
  expect_config("/data/validation_sources", [](DataConfig* c) { c->validation_sources = {{"a", 2}}; });
  expect_error(Code::kConfigInvalid, {"/batch/sequence"}, [&] { open(good, 0); });
  DataConfig text = bytes_config({{write("t", "some text"), 1}, {write("u", "more text"), 2}});
  text.packing = true;
  expect_error(Code::kConfigInvalid, {"/data/sources", "same weight"},
               [&] { Dataset::open(text, Vocabulary::bytes(), 0, 4, 256); });
}

TEST_F(DatasetTest, ReadChecksItsArguments) {
  const auto dataset = open(tokens_config({{write_tokens("a", counting<uint32_t>(100))}}), 4);
  OwnedRows rows(2, 5);
  expect_error(Code::kInvalidArgument, {"2 x 5"}, [&] { dataset->read(Split::kTrain, 0, rows.view()); });
  Rows view = OwnedRows(2, 4).view();
  view.targets = nullptr;
  expect_error(Code::kInvalidArgument, {"targets"}, [&] { dataset->read(Split::kTrain, 0, view); });
  OwnedRows good(2, 4);
  view = good.view();
  view.positions = view.kv_begin = nullptr;
  EXPECT_NO_THROW(dataset->read(Split::kTrain, ~uint64_t{0} - 1, view));
}

TEST_F(DatasetTest, ThreadsReadTheSame) {
  const auto dataset = open(tokens_config({{write_tokens("a", counting<uint32_t>(3000))}}), 16);
  const OwnedRows expected = read_rows(*dataset, Split::kTrain, 0, 200, 16);
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { equal[i] = read_rows(*dataset, Split::kTrain, 0, 200, 16) == expected; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 1));
}

TEST_F(DatasetTest, TheFingerprintChangesWithTheData) {
  std::vector<uint32_t> tokens = counting<uint32_t>(40000);
  DataConfig config = tokens_config({{write_tokens("a", tokens)}});
  std::set<std::string> prints;
  const auto add = [&](const DataConfig& c, int64_t cols = 8, uint64_t seed = 1) {
    return prints.insert(open(c, cols, seed)->fingerprint()).second;
  };
  EXPECT_TRUE(add(config));
  EXPECT_FALSE(add(config));
  EXPECT_TRUE(add(config, 9));
  EXPECT_TRUE(add(config, 8, 2));
  config.shuffle = false;
  EXPECT_TRUE(add(config));
  config.validation_fraction = 0.25;
  EXPECT_TRUE(add(config));
  tokens.back() = 7;
  write_tokens("a", tokens);
  EXPECT_TRUE(add(config));
  tokens[0] = 7;
  write_tokens("a", tokens);
  EXPECT_TRUE(add(config));
  std::filesystem::copy_file(path("a"), path("b"));
  config.sources[0].path = path("b");
  EXPECT_TRUE(add(config));
  EXPECT_EQ(prints.begin()->find(path("")), std::string::npos);  // no folders in it
}

/// Any number of shares gives the same fingerprint. Renamed files are the same data; a changed byte anywhere
/// is not.
TEST_F(DatasetTest, TheFingerprintSaysWhatTheFilesHold) {
  std::vector<uint32_t> tokens = counting<uint32_t>(800000);
  DataConfig config =
      tokens_config({{write_tokens("a", tokens)}, {write_tokens("c", counting<uint32_t>(100))}});
  const auto with_contents = [&](int64_t shares) {
    const auto dataset = open(config, 8);
    std::vector<std::string> digests;
    for (int64_t s = 0; s < shares; ++s) digests.push_back(dataset->digest_share(s, shares));
    return dataset->fingerprint(digests);
  };
  const std::string before = with_contents(1), at_once = open(config, 8)->fingerprint();
  for (const int64_t shares : {2, 3, 7}) EXPECT_EQ(with_contents(shares), before);
  EXPECT_EQ(data_difference(before, before), "");

  std::filesystem::rename(path("a"), path("b"));
  config.sources[0].path = path("b");
  EXPECT_EQ(data_difference(before, with_contents(2)), "");
  EXPECT_NE(data_difference(at_once, with_contents(2)), "") << "before contents, names were compared";
  std::filesystem::rename(path("b"), path("a"));
  config.sources[0].path = path("a");

  tokens[400000] += 1;
  write_tokens("a", tokens);
  EXPECT_NE(data_difference(before, with_contents(2)).find("/contents/files/0"), std::string::npos);
  EXPECT_EQ(data_difference(before, with_contents(2)).find("/contents/files/1"), std::string::npos);
  EXPECT_EQ(data_difference(at_once, with_contents(2)), "") << "a checkpoint of before is compared as it was";
  EXPECT_EQ(data_difference(before, at_once), "");
  tokens[0] += 1;
  write_tokens("a", tokens);
  EXPECT_NE(data_difference(at_once, with_contents(2)).find("head"), std::string::npos);
}

}  // namespace dataset_test
}  // namespace hawser::data
