// Hostile tokenizer test: tokenizers that would make a text or its tokens far longer, or process them for
// hours. Each is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/text/tokenizer.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace hostile_tokenizer_test {

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
  EXPECT_NE(refusal(file, std::string(100000, 'a')).find("retry"), std::string::npos);
}

/// Returns an expression whose searches take the square of the remaining text. Each stays below the limit of
/// one search, but all searches together would take hours.
Json slow_expression() { return {{"Regex", "a*a*b|."}}; }

TEST(HostileTokenizer, ManySlowSearchesEnd) {
  Json file = sound();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", slow_expression()}, {"behavior", "Isolated"}, {"invert", false}};
  EXPECT_NE(refusal(file, std::string(5000, 'a')).find("encoding takes more than 10 seconds"),
            std::string::npos);
}

std::string learn(const std::string& text, uint32_t vocabulary) {
  bool given = false;
  return Tokenizer::train_bpe(
      [&]() -> std::optional<std::string> {
        if (given) return std::nullopt;
        given = true;
        return text;
      },
      vocabulary, {}, kModuleFolder);
}

/// Returns the processor's seconds for learning from one word of `size` bytes.
double seconds_to_learn(size_t size) {
  std::string word;
  for (size_t i = 0; word.size() < size; ++i) word += static_cast<char>('a' + i * i % 17 % 26);
  const std::clock_t began = std::clock();
  learn(word, 600);
  return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
}

/// Training on one long word, as in base64 or minified code, takes time proportional to its length. A square
/// of the length would take 64 times as long for a word of 8 times the length.
TEST(HostileTokenizer, LongWordsAreLearnedFromInLinearTime) {
  EXPECT_LT(seconds_to_learn(4 << 20), 24 * seconds_to_learn(512 << 10));
}

/// A long word is not cut: its longest token is half the word.
TEST(HostileTokenizer, LongWordsAreLearnedFromWhole) {
  std::string word;
  while (word.size() < 8192) word += "ab";
  const Tokenizer tokenizer(learn(word, 267), "learned", kModuleFolder);
  size_t longest = 0;
  for (int64_t id = 0; id < tokenizer.vocabulary_size(); ++id)
    longest = std::max(longest, tokenizer.token(id).text.size());
  EXPECT_EQ(longest, 2048u);
}

/// Ends a call at its third poll. A call that takes no notice ends by itself or reaches the test's time
/// limit.
class Interruption {
 public:
  Interruption() {
    set_interrupt_poll(
        [](void* user) {
          auto* const self = static_cast<Interruption*>(user);
          return ++self->polls_ >= 3;
        },
        this);
  }
  ~Interruption() { set_interrupt_poll(nullptr, nullptr); }

  template <typename Call>
  void expect_ends(const std::string& name, const Call& call) {
    try {
      call();
      ADD_FAILURE() << name << " ended by itself";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kCancelled) << name << ": " << error.what();
    }
  }

 private:
  int polls_ = 0;
};

/// The tokenizers of llama2 and gemma take the whole text as one word.
TEST(HostileTokenizer, ThePollOfTheCallerEndsEncoding) {
  std::string text;
  for (uint32_t i = 1; text.size() < 6 << 20; i = i * 1664525 + 1013904223)
    text += i >> 29 == 0 ? ' ' : static_cast<char>('a' + (i >> 16) % 26);
  for (const char* family : {"gpt2", "llama2", "llama3", "gemma", "qwen2"}) {
    const Tokenizer tokenizer = testing::open_golden(family);
    Interruption().expect_ends(family, [&] { tokenizer.encode(text, false); });
  }
}

TEST(HostileTokenizer, ThePollOfTheCallerEndsSlowExpressions) {
  Json splits = sound(), replaces = sound();
  splits["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", slow_expression()}, {"behavior", "Isolated"}, {"invert", true}};
  replaces["normalizer"] = replace(slow_expression(), "a");
  for (const Json& file : {splits, replaces}) {
    const Tokenizer tokenizer(file.dump(), "tokenizer.json", kModuleFolder);
    Interruption().expect_ends("slow", [&] { tokenizer.encode(std::string(5000, 'a'), false); });
  }
}

/// A Replace by an expression gives the tokens of the replaced text.
TEST(HostileTokenizer, NormalizersReplaceByExpressions) {
  Json file = sound();
  file["normalizer"] = replace({{"Regex", " {2,}"}}, " ");
  const Tokenizer tokenizer(file.dump(), "tokenizer.json", kModuleFolder);
  EXPECT_EQ(tokenizer.encode("a   b  c", false), testing::open_golden("gpt2").encode("a b c", false));
}

TEST(HostileTokenizer, ThePollOfTheCallerEndsLearning) {
  std::string text;
  for (uint32_t i = 1; text.size() < 4 << 20; i = i * 1664525 + 1013904223)
    text += i >> 29 == 0 ? ' ' : static_cast<char>('a' + (i >> 16) % 26);
  Interruption().expect_ends("learning", [&] { learn(text, 100000); });
}

/// A word of many MiB is encoded in parts and has the same tokens as short texts.
TEST(HostileTokenizer, LongWordsHaveTheTokensOfTheirParts) {
  const std::string line = "Hello W\u00f6rter 1234 abc  def\n";
  for (const char* family : {"llama2", "gemma", "mistral"}) {
    const Tokenizer tokenizer = testing::open_golden(family);
    const std::vector<uint32_t> one = tokenizer.encode(line, false),
                                two = tokenizer.encode(line + line, false);
    ASSERT_GT(two.size(), one.size());
    const std::vector<uint32_t> more(two.begin() + static_cast<std::ptrdiff_t>(one.size()), two.end());
    ASSERT_TRUE(std::equal(one.begin(), one.end(), two.begin())) << family;
    std::string text = line;
    std::vector<uint32_t> expected = one;
    while (text.size() < 3 << 20) {
      text += line;
      expected.insert(expected.end(), more.begin(), more.end());
    }
    std::vector<uint32_t> ids;
    std::vector<TextSpan> spans;
    tokenizer.encode_with_spans(text, false, &ids, &spans);
    EXPECT_TRUE(ids == expected) << family;
    EXPECT_EQ(spans.back().end, text.size()) << family;
  }
}

}  // namespace hostile_tokenizer_test
}  // namespace hawser::text
