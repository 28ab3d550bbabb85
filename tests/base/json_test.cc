// Tests parse_json(): its bound against a slow count of levels, and the position at which a text stops being
// JSON.
#include "engine/base/json.h"

#include <gtest/gtest.h>

#include <random>

namespace hawser {
namespace json_test {

std::string nested(int levels, char open, char close) {
  return std::string(static_cast<size_t>(levels), open) + std::string(static_cast<size_t>(levels), close);
}

TEST(ParseJson, TakesTheDeepestTextAndNoneDeeper) {
  EXPECT_TRUE(parse_json<Json>(nested(kMostJsonDepth, '[', ']')).is_array());
  try {
    parse_json<OrderedJson>("  " + nested(kMostJsonDepth + 1, '[', ']'));
    FAIL() << "was parsed";
  } catch (const OrderedJson::parse_error& error) {
    EXPECT_EQ(error.byte, static_cast<size_t>(2 + kMostJsonDepth + 1)) << error.what();
    EXPECT_NE(std::string(error.what()).find("more than 64 levels"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(parse_json_or_discard<Json>(nested(kMostJsonDepth + 1, '[', ']')).is_discarded());
  EXPECT_TRUE(parse_json_or_discard<Json>("[1,").is_discarded());
  EXPECT_EQ(parse_json_or_discard<Json>("[1]"), Json::array({1}));
}

/// Counts the levels of a value. Random JSON has brackets and quotes in its strings, which must not count as
/// levels.
int levels_of(const Json& value) {
  if (!value.is_structured()) return 0;
  int most = 0;
  for (const Json& item : value) most = std::max(most, levels_of(item));
  return most + 1;
}

Json random_value(std::mt19937* random, int levels) {
  if (levels == 0) return std::vector<std::string>{"[[[", "\"{", "\\\"[", "}]", ""}.at((*random)() % 5);
  Json inner = random_value(random, levels - 1);
  if ((*random)() % 2 == 0) return Json{{"[{\"" + std::to_string((*random)() % 9), inner}};
  return Json::array({"\\[", inner, nullptr});
}

TEST(ParseJson, CountsLevelsAndNotBracketsInTexts) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const Json value = random_value(&random, static_cast<int>(random() % 80));
    size_t at = 0;
    EXPECT_EQ(nests_too_deep(value.dump(), &at), levels_of(value) > kMostJsonDepth) << value;
  }
}

/// nlohmann's parser stops at a NUL byte, so it would ignore the text after it.
TEST(ParseJson, RefusesWhatStandsBehindANulByte) {
  using namespace std::string_literals;
  for (const std::string& text : {"{}\0{}"s, "[1]\0 "s, "\"a\"\0}"s, "{\"a\": 1\0}"s}) {
    EXPECT_THROW(parse_json<Json>(text), Json::parse_error) << text;
    EXPECT_TRUE(parse_json_or_discard<OrderedJson>(text).is_discarded()) << text;
    EXPECT_EQ(json_error_at(text), text.find('\0') + 1) << text;
  }
  EXPECT_EQ(parse_json<Json>("[1]\0\0"s), Json::array({1}));
}

TEST(JsonErrorAt, IsZeroForJsonOfAnyDepth) {
  for (const char* json : {"1", "\"a\"", "null", " [1, {\"a\": 2}] "})
    EXPECT_EQ(json_error_at(json), 0u) << json;
  EXPECT_EQ(json_error_at(nested(100000, '[', ']')), 0u);
}

TEST(JsonErrorAt, IsWhereTheParserStops) {
  for (const char* json : {"", "[1,", "[1 2]", "{\"a\" 1}", "nul", "[1]]", "\"\\x\"", "1e999"}) {
    size_t expected = 1;
    try {
      FAIL() << Json::parse(json);
    } catch (const Json::parse_error& error) {
      expected = error.byte;
    } catch (const Json::out_of_range&) {
      expected = std::string_view(json).size();
    }
    EXPECT_EQ(json_error_at(json), expected) << json;
  }
}

}  // namespace json_test
}  // namespace hawser
