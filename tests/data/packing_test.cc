// Packing test: compares packed rows with a slow, obvious reference, token by token over the complete stream.
#include "engine/base/philox.h"
#include "engine/data/dataset.h"
#include "tests/data/data_files.h"

namespace hawser::data {
namespace packing_test {

class PackingTest : public DataTest {
 protected:
  /// Returns the expected row of `cols` at token `first`, if document[i] is the document number of token i.
  static OwnedRows obvious_row(const std::vector<int32_t>& stream, const std::vector<int>& document,
                               size_t first, int64_t cols) {
    OwnedRows row(1, cols);
    for (size_t t = 0; t < static_cast<size_t>(cols); ++t) {
      row.tokens[t] = stream[first + t];
      row.targets[t] = document[first + t] == document[first + t + 1] ? stream[first + t + 1] : -100;
      size_t begin = t;
      while (begin > 0 && document[first + begin - 1] == document[first + t]) --begin;
      row.kv_begin[t] = static_cast<int32_t>(begin);
      row.positions[t] = static_cast<int32_t>(t - begin);
    }
    return row;
  }

  static void compare(const DataConfig& config, const Vocabulary& vocabulary,
                      const std::vector<int32_t>& stream, const std::vector<int>& document) {
    for (const int64_t cols : {1, 2, 3, 7, 16, 64}) {
      const auto dataset = Dataset::open(config, vocabulary, 0, cols, 0);
      ASSERT_EQ(dataset->train_samples(), (static_cast<int64_t>(stream.size()) - 1) / cols);
      for (int64_t w = 0; w < dataset->train_samples(); ++w) {
        const OwnedRows row = read_rows(*dataset, Split::kTrain, static_cast<uint64_t>(w), 1, cols);
        const OwnedRows expected = obvious_row(stream, document, static_cast<size_t>(w * cols), cols);
        ASSERT_EQ(row.tokens, expected.tokens) << "cols " << cols << " sample " << w;
        ASSERT_EQ(row.targets, expected.targets) << "cols " << cols << " sample " << w;
        ASSERT_EQ(row.positions, expected.positions) << "cols " << cols << " sample " << w;
        ASSERT_EQ(row.kv_begin, expected.kv_begin) << "cols " << cols << " sample " << w;
      }
    }
  }

  /// Returns random tokens in which the separator 0 is frequent, sometimes twice in succession.
  static std::vector<int32_t> random_stream(int64_t n, uint64_t seed) {
    std::vector<int32_t> stream;
    for (int64_t i = 0; i < n; ++i) {
      const PhiloxBlock random = philox(seed, static_cast<uint64_t>(i), 0);
      stream.push_back(random.v[0] % 6 == 0 ? 0 : static_cast<int32_t>(1 + random.v[1] % 99));
    }
    return stream;
  }
};

TEST_F(PackingTest, SeparatorsInRawTokens) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const std::vector<int32_t> stream = random_stream(400, seed);
    std::vector<int> document;
    int current = 0;
    for (const int32_t token : stream) {
      document.push_back(current);
      if (token == 0) ++current;  // the separator is the last token of its document
    }
    std::vector<uint16_t> narrow(stream.begin(), stream.end());
    DataConfig config = tokens_config({{write_tokens("a", narrow)}}, TokenType::kU16);
    config.shuffle = false;
    config.packing = true;
    config.separator = 0;
    compare(config, Vocabulary(), stream, document);
  }
}

TEST_F(PackingTest, MegatronDocumentEntries) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::vector<int32_t> lengths;
    std::vector<int64_t> starts;
    std::vector<int> document;
    for (uint64_t i = 0; i < 60; ++i) {
      const PhiloxBlock random = philox(seed, i, 1);
      if (i == 0 || random.v[0] % 2 == 0) starts.push_back(static_cast<int64_t>(i));
      if (random.v[2] % 9 == 0) starts.push_back(static_cast<int64_t>(i));  // an occasional empty document
      lengths.push_back(static_cast<int32_t>(random.v[1] % 12));
      document.insert(document.end(), static_cast<size_t>(lengths.back()), static_cast<int>(starts.size()));
    }
    const std::vector<int32_t> stream = random_stream(static_cast<int64_t>(document.size()), seed);
    write_tokens("m.bin", stream);
    write("m.idx", MegatronIndex::of(lengths, starts, 4, 4).bytes());
    DataConfig config = tokens_config({{path("m")}});
    config.format = DataFormat::kMegatron;
    config.shuffle = false;
    config.packing = true;
    compare(config, Vocabulary(), stream, document);
  }
}

TEST_F(PackingTest, TextFilesAreDocumentsOfOneStream) {
  std::vector<int32_t> stream;
  std::vector<int> document;
  DataConfig config;
  config.format = DataFormat::kText;
  config.vocabulary = VocabularyKind::kBytes;
  config.packing = true;
  config.shuffle = false;
  config.validation_fraction = 0;
  for (int file = 0; file < 12; ++file) {
    std::string text;
    for (int i = 0; i < 1 + file * 7 % 23; ++i) text.push_back(static_cast<char>('a' + (file + i) % 26));
    config.sources.push_back({write("t" + std::to_string(file), text)});
    for (const char c : text) {
      stream.push_back(c);
      document.push_back(file);
    }
  }
  compare(config, Vocabulary::bytes(), stream, document);
}

TEST_F(PackingTest, WithoutPackingSeparatorsAreTokensLikeOthers) {
  DataConfig config = tokens_config({{write_tokens<uint16_t>("a", {1, 0, 2, 0, 3})}}, TokenType::kU16);
  config.separator = 0;
  config.shuffle = false;
  const OwnedRows row = read_rows(*Dataset::open(config, Vocabulary(), 0, 4, 0), Split::kTrain, 0, 1, 4);
  EXPECT_EQ(row.targets, (std::vector<int32_t>{0, 2, 0, 3}));
  EXPECT_EQ(row.positions, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(row.kv_begin, (std::vector<int32_t>{0, 0, 0, 0}));
}

}  // namespace packing_test
}  // namespace hawser::data
