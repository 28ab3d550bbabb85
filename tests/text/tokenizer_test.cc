// Tokenizer test: ids and texts are exactly those of Hugging Face's tokenizers, also token by token; errors
// describe the fault in a file.
#include "engine/text/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "engine/base/error.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace tokenizer_test {

using testing::kModuleFolder;
using testing::open_golden;

class TokenizerCases : public ::testing::TestWithParam<const char*> {
 protected:
  const Tokenizer tokenizer_ = open_golden(GetParam());
  const Json cases_ = Json::parse(
      testing::read_file(std::string(HAWSER_GOLDEN) + "/tokenizers/" + GetParam() + "/cases.json"));
};

TEST_P(TokenizerCases, IdsAndTextsAreTheReference) {
  ASSERT_GT(cases_["rows"].size(), 100u);
  for (const Json& row : cases_["rows"]) {
    const std::string text = row["text"];
    const std::vector<uint32_t> with_special = row["with_special"];
    EXPECT_EQ(tokenizer_.encode(text, false), row["ids"].get<std::vector<uint32_t>>()) << text;
    EXPECT_EQ(tokenizer_.encode(text, true), with_special) << text;
    EXPECT_EQ(tokenizer_.decode(with_special, false), row["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer_.decode(with_special, true), row["decoded_skip"].get<std::string>());
  }
  const Json& pair = cases_["pair"];
  EXPECT_EQ(tokenizer_.encode_pair(pair[0].get<std::string>(), pair[1].get<std::string>(), true),
            pair[2].get<std::vector<uint32_t>>());
}

TEST_P(TokenizerCases, SpansCoverTheTextInOrder) {
  for (const Json& row : cases_["rows"]) {
    const std::string text = row["text"];
    std::vector<uint32_t> ids;
    std::vector<TextSpan> spans;
    tokenizer_.encode_with_spans(text, false, &ids, &spans);
    EXPECT_EQ(ids, row["ids"].get<std::vector<uint32_t>>()) << text;
    ASSERT_EQ(spans.size(), ids.size());
    uint64_t begin = 0;
    for (const TextSpan& span : spans) {
      EXPECT_LE(begin, span.begin) << text;
      EXPECT_LE(span.begin, span.end) << text;
      EXPECT_LE(span.end, text.size()) << text;
      begin = span.begin;
    }
  }
}

TEST_P(TokenizerCases, TokenByTokenIsTheSameTextInWholeCharacters) {
  const std::string unknown = "\xEF\xBF\xBD";  // the replacement for bytes that are no character
  for (const Json& row : cases_["rows"]) {
    const std::vector<uint32_t> ids = row["ids"];
    const std::string whole = tokenizer_.decode(ids, false);
    if (whole.find(unknown) != std::string::npos) continue;
    TextDecoder decoder(tokenizer_, false);
    std::string text;
    for (const uint32_t id : ids) {
      const std::string piece = decoder.next(id);
      EXPECT_EQ(piece.find(unknown), std::string::npos) << piece;
      text += piece;
    }
    EXPECT_EQ(text, whole);
  }
}

TEST_P(TokenizerCases, TokensAndTheirIds) {
  const int64_t size = tokenizer_.vocabulary_size();
  ASSERT_GT(size, 0);
  for (int64_t id = 0; id < size; ++id)
    EXPECT_EQ(tokenizer_.id(tokenizer_.token(id).text), id) << tokenizer_.token(id).text;
  EXPECT_EQ(tokenizer_.id("a token that nobody has"), std::nullopt);
  EXPECT_THROW(tokenizer_.token(size), Error);
  EXPECT_THROW(tokenizer_.token(-1), Error);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerCases,
                         ::testing::Values("gpt2", "llama3", "qwen2", "llama2", "mistral", "gemma", "mixed"),
                         [](const auto& info) { return info.param; });

/// Returns the error from opening a changed file of a family.
std::string refusal(const std::string& family, const std::function<void(Json&)>& change) {
  Json file = Json::parse(
      testing::read_file(std::string(HAWSER_GOLDEN) + "/tokenizers/" + family + "/tokenizer.json"));
  change(file);
  try {
    Tokenizer(file.dump(), "x/tokenizer.json", kModuleFolder);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataInvalid);
    return error.what();
  }
  return "";
}

TEST(Tokenizer, ABrokenFileIsRefusedByItsName) {
  for (const char* broken : {"", "{", "[]", "{}", "null", "\xff"}) {
    EXPECT_THROW(Tokenizer(broken, "x/tokenizer.json", kModuleFolder), Error) << broken;
  }
  const std::string model = refusal("gpt2", [](Json& file) { file["model"]["type"] = "Other"; });
  EXPECT_EQ(model.find("x/tokenizer.json: "), 0u) << model;
  EXPECT_NE(refusal("gpt2", [](Json& file) { file["pre_tokenizer"] = {{"type", "Other"}}; }), "");
  EXPECT_NE(refusal("gpt2", [](Json& file) { file["decoder"]["type"] = 7; }), "");
  EXPECT_NE(refusal("gpt2", [](Json& file) { file["model"]["merges"].push_back("zzqq zzpp"); }), "");
}

TEST(Tokenizer, TruncationAndPaddingOfTheFileAreLeftOut) {
  Json file = Json::parse(testing::read_file(std::string(HAWSER_GOLDEN) + "/tokenizers/gpt2/tokenizer.json"));
  file["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  const Tokenizer tokenizer(file.dump(), "tokenizer.json", kModuleFolder);
  EXPECT_GT(tokenizer.encode("a text of more than two tokens", false).size(), 2u);
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefusedWithItsOffset) {
  const Tokenizer tokenizer = open_golden("gpt2");
  try {
    tokenizer.encode("abc\xffz", false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataInvalid);
    EXPECT_NE(std::string(error.what()).find("byte 3"), std::string::npos) << error.what();
  }
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer = open_golden("llama3");
  const std::string text = "To be, or not to be: that is the question. \xF0\x9F\x8E\x89";
  const std::vector<uint32_t> expected = tokenizer.encode(text, true);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(tokenizer.encode(text, true), expected);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, WithoutTheModuleTheErrorSaysWhatIsMissing) {
  try {
    Tokenizer("{}", "tokenizer.json", "/nowhere");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("/nowhere/libhawser_text.so"), std::string::npos);
  }
}

std::string learn(const std::vector<std::string>& texts, uint32_t vocabulary) {
  size_t next = 0;
  return Tokenizer::train_bpe(
      [&]() -> std::optional<std::string> {
        return next < texts.size() ? std::optional(texts[next++]) : std::nullopt;
      },
      vocabulary, {"<|endoftext|>"}, kModuleFolder);
}

TEST(LearnedBpe, EncodesItsTextInFewTokensAndAnyTextExactly) {
  const std::vector<std::string> texts(200, "the cat sat on the mat, and the cat ran\n");
  const std::string json = learn(texts, 300);
  EXPECT_EQ(json, learn(texts, 300));
  const Tokenizer tokenizer(json, "learned", kModuleFolder);
  EXPECT_LE(tokenizer.vocabulary_size(), 300);
  EXPECT_EQ(tokenizer.id("<|endoftext|>"), 0);
  EXPECT_TRUE(tokenizer.token(0).special);
  EXPECT_LT(tokenizer.encode("the cat sat on the mat", false).size(), 10u);
  const std::string other = " \t\xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x8E\x89 \x01 zebra";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(other, false), false), other);
}

TEST(LearnedBpe, AnExceptionOfTheHostArrivesAsItself) {
  EXPECT_THROW(Tokenizer::train_bpe([]() -> std::optional<std::string> { throw std::logic_error("mine"); },
                                    300, {}, kModuleFolder),
               std::logic_error);
}

// Each thread gets the stack and so the id of the one before it. An allocator that took the thread which
// loaded the module for the main thread would give the second thread the heap that went with the first.
void learn_on_threads_in_turn() {
  for (int number = 0; number < 4; ++number)
    std::thread([] { learn(std::vector<std::string>(50, "the cat sat on the mat\n"), 280); }).join();
  std::_Exit(0);
}

TEST(LearnedBpe, TheThreadThatLoadedTheModuleMayEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a new process, where no thread has loaded it yet
  EXPECT_EXIT(learn_on_threads_in_turn(), ::testing::ExitedWithCode(0), "");
}

}  // namespace tokenizer_test
}  // namespace hawser::text
