// Tests of tokenizers that would make a text or its tokens far longer, or process them for hours. Each is
// refused by name.
#include <gtest/gtest.h>

#include <chrono>

#include "engine/base/error.h"
#include "engine/text/tokenizer.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace {

using testing::kModuleFolder;

Json sound() {
  return Json::parse(testing::read_file(std::string(HAWSER_GOLDEN) + "/tokenizers/gpt2/tokenizer.json"));
}

std::string refusal(const Json& file, const std::string& text = "some words") {
  try {
    Tokenizer(file.dump(), "tokenizer.json", kModuleFolder).encode(text, true);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataInvalid);
    return error.what();
  }
  return "";
}

Json replace(const Json& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

Json sequence(const char* key, const Json& part, int count) {
  Json all = {{"type", "Sequence"}, {key, Json::array()}};
  for (int i = 0; i < count; ++i) all[key].push_back(part);
  return all;
}

TEST(HostileTokenizer, NormalizersThatGrowTheTextAreRefused) {
  const Json text = {{"String", "a"}}, expression = {{"Regex", "a*"}};
  for (const Json& normalizer :
       {replace(text, std::string(1000, 'a')), replace(expression, std::string(1000, 'b')),
        sequence("normalizers", replace(text, "aa"), 40)}) {
    Json file = sound();
    file["normalizer"] = normalizer;
    EXPECT_NE(refusal(file).find("its normalizer can make a text"), std::string::npos) << refusal(file);
    EXPECT_NE(refusal(file).find("at most 64 times"), std::string::npos) << refusal(file);
  }
  Json file = sound();
  file["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(1000000, 'a')}};
  EXPECT_NE(refusal(file).find("its normalizer has 1 steps and adds 1000000 bytes"), std::string::npos)
      << refusal(file);
  file["normalizer"] = sequence("normalizers", {{"type", "NFC"}}, 1000);
  EXPECT_NE(refusal(file).find("its normalizer has 1001 steps"), std::string::npos) << refusal(file);
}

TEST(HostileTokenizer, NormalizersOfPublishedFormsAreTaken) {
  for (const Json& normalizer : {sequence("normalizers", replace({{"String", " "}}, "\u2581"), 2),
                                 sequence("normalizers", replace({{"Regex", " {2,}"}}, " "), 3),
                                 Json{{"type", "Prepend"}, {"prepend", "\u2581"}}}) {
    Json file = sound();
    file["normalizer"] = normalizer;
    EXPECT_EQ(refusal(file), "");
  }
}

TEST(HostileTokenizer, TemplatesOfManyPiecesAreRefused) {
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  Json file = sound();
  Json pieces = Json::array();
  for (int i = 0; i < 100000; ++i) pieces.push_back(text);
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", pieces},
                            {"pair", pieces},
                            {"special_tokens", Json::object()}};
  EXPECT_NE(refusal(file).find("its post_processor can make a text 100000 times"), std::string::npos)
      << refusal(file);
}

TEST(HostileTokenizer, DecodersThatGrowTheTextAreRefused) {
  Json file = sound();
  file["decoder"] = sequence("decoders", replace({{"String", "a"}}, "aa"), 40);
  EXPECT_NE(refusal(file).find("its decoder can make a text"), std::string::npos) << refusal(file);
}

/// A search that would take hours ends with an error.
TEST(HostileTokenizer, SlowExpressionsEnd) {
  Json file = sound();
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", "(a+)+(a+)+(a+)+b"}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  const auto began = std::chrono::steady_clock::now();
  EXPECT_NE(refusal(file, std::string(100000, 'a')).find("retry"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

/// One long word, as in base64 or minified code, is cut, because the time of learning grows with the square
/// of its length.
TEST(HostileTokenizer, LongWordsAreLearnedFromInLinearTime) {
  const auto seconds = [](size_t bytes) {
    std::string word;
    for (size_t i = 0; word.size() < bytes; ++i) word += static_cast<char>('a' + i * i % 17 % 26);
    bool given = false;
    const auto began = std::chrono::steady_clock::now();
    Tokenizer::train_bpe(
        [&]() -> std::optional<std::string> {
          if (given) return std::nullopt;
          given = true;
          return word;
        },
        600, {}, kModuleFolder);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  EXPECT_LT(seconds(2 << 20), 20);
}

}  // namespace
}  // namespace hawser::text
