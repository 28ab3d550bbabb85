// Vocabulary test: encode, decode, JSON, and invalid UTF-8.
#include "engine/data/vocabulary.h"

#include "engine/base/utf8.h"
#include "tests/data/data_files.h"

namespace hawser::data {
namespace vocabulary_test {

class VocabularyTest : public DataTest {};

TEST_F(VocabularyTest, BytesAreTheirOwnTokens) {
  const Vocabulary vocabulary = Vocabulary::bytes();
  EXPECT_EQ(vocabulary.size(), 256);
  const std::vector<int32_t> tokens = vocabulary.encode("A\xff");
  EXPECT_EQ(tokens, (std::vector<int32_t>{65, 255}));
  EXPECT_EQ(vocabulary.decode(tokens.data(), 2), "A\xff");
}

TEST_F(VocabularyTest, CharactersAscendAndRoundTrip) {
  const std::string text = "b\na é€😀a";
  const Vocabulary vocabulary = Vocabulary::characters_of({write("a", "b\na é"), write("b", "€😀a")});
  EXPECT_EQ(vocabulary.size(), 7);
  const std::vector<int32_t> tokens = vocabulary.encode(text);
  EXPECT_EQ(tokens, (std::vector<int32_t>{3, 0, 2, 1, 4, 5, 6, 2}));
  EXPECT_EQ(vocabulary.decode(tokens.data(), static_cast<int64_t>(tokens.size())), text);
}

TEST_F(VocabularyTest, SurvivesJson) {
  const std::string text("\0\n\"\\b\x7fé€😀", 15);
  const Vocabulary characters = Vocabulary::characters_of({write("a", text)});
  EXPECT_EQ(Vocabulary::from_json(characters.to_json()), characters);
  EXPECT_EQ(Vocabulary::from_json(Vocabulary::bytes().to_json()), Vocabulary::bytes());
  EXPECT_EQ(Vocabulary::from_json(Vocabulary().to_json()), Vocabulary());
  const std::vector<int32_t> tokens = Vocabulary::from_json(characters.to_json()).encode(text);
  EXPECT_EQ(characters.decode(tokens.data(), static_cast<int64_t>(tokens.size())), text);
}

TEST_F(VocabularyTest, RefusesOtherJson) {
  const char* const kBad[] = {"",
                              "[]",
                              "{",
                              "{\"kind\":\"words\"}",
                              "{\"kind\":1}",
                              "{\"characters\":\"ab\"}",
                              "{\"kind\":\"characters\"}",
                              "{\"kind\":\"characters\",\"characters\":\"\"}",
                              "{\"kind\":\"characters\",\"characters\":\"ba\"}",
                              "{\"kind\":\"characters\",\"characters\":\"aa\"}",
                              "{\"kind\":\"characters\",\"characters\":[97]}",
                              "{\"kind\":\"characters\",\"characters\":\"\\ud800\"}",
                              "{\"kind\":\"bytes\",\"characters\":\"a\"}",
                              "{\"kind\":\"bytes\",\"more\":\"a\"}"};
  for (const char* json : kBad) {
    SCOPED_TRACE(json);
    expect_error(Code::kDataInvalid, {"vocabulary"}, [&] { Vocabulary::from_json(json); });
  }
}

TEST_F(VocabularyTest, NamesTheCharacterThatItLacks) {
  const Vocabulary vocabulary = Vocabulary::characters_of({write("a", "abc")});
  expect_error(Code::kDataInvalid, {"U+00E9 'é'", "offset 2", "3 characters"},
               [&] { vocabulary.encode("abé"); });
  expect_error(Code::kDataInvalid, {"0xff", "offset 1"}, [&] { vocabulary.encode("a\xff"); });
  expect_error(Code::kInvalidArgument, {"tokens[1] = 3"}, [&] {
    const int32_t tokens[] = {0, 3};
    vocabulary.decode(tokens, 2);
  });
  expect_error(Code::kInvalidArgument, {"tokens[0] = -1"}, [&] {
    const int32_t token = -1;
    vocabulary.decode(&token, 1);
  });
}

TEST_F(VocabularyTest, NoneKnowsNoText) {
  expect_error(Code::kFailedPrecondition, {"vocabulary"}, [] { Vocabulary().encode("a"); });
  expect_error(Code::kFailedPrecondition, {"vocabulary"}, [] { Vocabulary().decode(nullptr, 0); });
  EXPECT_EQ(Vocabulary().size(), 0);
}

TEST_F(VocabularyTest, NeedsCharacters) {
  expect_error(Code::kDataInvalid, {path("a")}, [&] { Vocabulary::characters_of({write("a", "")}); });
  expect_error(Code::kNotFound, {"absent"}, [&] { Vocabulary::characters_of({path("absent")}); });
  expect_error(Code::kDataInvalid, {path("b"), "0xc3", "offset 2"},
               [&] { Vocabulary::characters_of({write("b", "ab\xc3")}); });
}

TEST(Utf8, RefusesWhatIsNotUtf8) {
  const std::string kBad[] = {"\x80",
                              "\xbf",
                              "\xc0\x80",
                              "\xc1\xbf",
                              "\xc3",
                              "\xc3(",
                              "\xe0\x80\x80",
                              "\xe0\x9f\xbf",
                              "\xed\xa0\x80",
                              "\xed\xbf\xbf",
                              "\xe2\x82",
                              "\xe2(\xac",
                              "\xf0\x80\x80\x80",
                              "\xf0\x8f\xbf\xbf",
                              "\xf4\x90\x80\x80",
                              "\xf0\x9f\x98",
                              "\xf5\x80\x80\x80",
                              "\xff",
                              "\xfe"};
  for (const std::string& text : kBad) {
    size_t at = 0;
    EXPECT_EQ(next_code_point(text.data(), text.size(), &at), kInvalidCodePoint)
        << ::testing::PrintToString(text);
    EXPECT_EQ(at, 0u);
  }
}

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (uint32_t point = 0; point <= 0x10FFFF; ++point) {
    if (!is_scalar_value(point)) continue;
    std::string text;
    append_code_point(point, &text);
    size_t at = 0;
    ASSERT_EQ(next_code_point(text.data(), text.size(), &at), point);
    ASSERT_EQ(at, text.size());
  }
}

}  // namespace vocabulary_test
}  // namespace hawser::data
