// If an object of a row repeated a key, its last value was used silently. Now it is an error with its
// position, as in configs.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/text/parse_row.h"

namespace hawser::text {
namespace duplicate_keys_test {

/// Returns the error of a row, or "" if the row is accepted.
std::string refusal(const std::string& json) {
  RawRow row;
  row.text = json, row.where = "rows.jsonl:7";
  try {
    parse_row(row);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataInvalid);
    return error.message();
  }
  return "";
}

TEST(DuplicateKeys, OfARowAreRefusedWithTheirPlace) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"text": "x", "text": "y"})", "rows.jsonl:7:15: the key \"text\" appears twice"},
      {R"({"text": "x", "te\u0078t": "y"})", "rows.jsonl:7:15: the key \"text\" appears twice"},
      {R"({"messages": [{"role": "user", "content": "a", "role": "b"}]})",
       ":7:48: the key \"role\" appears twice"},
      {R"({"a": {"b": 1}, "b": {"c": 1, "c" : 2}})", ":7:31: the key \"c\" appears twice"},
      {R"({"": 1, "": 2})", ":7:9: the key \"\" appears twice"}};
  for (const auto& [json, message] : rows)
    EXPECT_NE(refusal(json).find(message), std::string::npos) << json << ": " << refusal(json);
}

/// The parser stops at a NUL byte, but the search for keys continued and met brackets that nothing had
/// opened.
TEST(DuplicateKeys, AreNotSearchedBehindANulByte) {
  for (const char* behind : {"\"a\": 1", "}}}}", "{\"a\": 1}"})
    EXPECT_NE(refusal(std::string("{\"text\": \"x\"}") + '\0' + behind).find("NUL"), std::string::npos)
        << behind;
}

TEST(DuplicateKeys, OfDifferentObjectsAndTextsAreNone) {
  for (const char* json :
       {R"({"text": "text"})", R"({"a": {"a": {"a": 1}}})", R"({"a": [{"b": 1}, {"b": 2}], "b": 3})",
        R"({"a": "\"a\": 1, ", "b": "a\\", "c": "{\"a\":"})", R"({"a": ["b", "b", "b"], "b": {}})", R"({})"})
    EXPECT_EQ(refusal(json), "") << json;
}

/// Generates a random row, and reports whether it repeats a key.
std::string random_object(std::mt19937* random, int depth, bool* repeats) {
  std::string text = "{";
  std::set<uint32_t> keys;
  const uint32_t count = (*random)() % 4;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t key = (*random)() % 40;
    *repeats = *repeats || !keys.insert(key).second;
    text += (i > 0 ? ", " : "") + std::string("\"k") + std::to_string(key) + "\\\"\"";
    text += (*random)() % 2 == 0 ? ":" : " : ";
    const std::string inner = depth > 0 ? random_object(random, depth - 1, repeats) : "\"k1\\\"\"";
    text += (*random)() % 2 == 0 ? inner : "[" + inner + ", \"k2\\\"\"]";
  }
  return text + "}";
}

TEST(DuplicateKeys, AreFoundInRandomRows) {
  std::mt19937 random(3);
  int found = 0;
  for (int i = 0; i < 2000; ++i) {
    bool repeats = false;
    const std::string json = random_object(&random, 3, &repeats);
    EXPECT_EQ(!refusal(json).empty(), repeats) << json;
    found += repeats ? 1 : 0;
  }
  EXPECT_GT(found, 100);
  EXPECT_LT(found, 1900);
}

}  // namespace duplicate_keys_test
}  // namespace hawser::text
