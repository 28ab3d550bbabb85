// Row encoder test: a row trains on answers and on the token that ends them. A template that marks answers
// and one that does not give the same result.
#include "engine/text/row_encoder.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/text/answer_tail.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace row_encoder_test {

using testing::chat_tokenizer;
using testing::kModuleFolder;

constexpr const char* kPlain =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr const char* kMarked =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}{{ '\n' }}{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "One?"},
    {"role": "assistant", "content": "First answer."}, {"role": "user", "content": "Two?"},
    {"role": "assistant", "content": "Second \u00e4nswer"}]})";

class RowEncoderTest : public ::testing::Test {
 protected:
  EncodedRow encode(const char* json, const char* source) const {
    const ChatTemplate chat_template(source, "the template", kModuleFolder);
    const RowEncoding encoding{tokenizer_,
                               &chat_template,
                               {},
                               tokenizer_.id("<|endoftext|>"),
                               0,
                               answer_tail(chat_template, {}, 0),
                               drop_unprinted_};
    return RowEncoder(encoding).encode(training_row(OrderedJson::parse(json), "x:1"), "x:1");
  }
  /// Returns the text of the tokens that have this loss weight.
  std::string learned(const EncodedRow& row, float weight = 1) const {
    std::vector<uint32_t> ids;
    for (size_t i = 0; i < row.ids.size(); ++i)
      if (row.weights[i] == weight) ids.push_back(row.ids[i]);
    return tokenizer_.decode(ids, false);
  }
  std::string refusal(const char* json, const char* source) const {
    try {
      encode(json, source);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("x:1: "), 0u) << error.what();
      return error.what();
    }
    return "";
  }

  const Tokenizer tokenizer_ = chat_tokenizer();
  bool drop_unprinted_ = false;
};

/// Only text that the template adds after the content is cut off, not text after a special token in the
/// content.
TEST_F(RowEncoderTest, SpecialTokensInsideAnAnswerDoNotEndIt) {
  const std::string answer = "Write <|endoftext|> there, <|im_end|> and go home.";
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": ")" + answer +
      "\"}]}";
  EXPECT_EQ(learned(encode(chat.c_str(), kPlain)), answer + "<|im_end|>");
  EXPECT_TRUE(encode(chat.c_str(), kPlain).ends);
  const char* const endless =
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}";
  EXPECT_EQ(learned(encode(chat.c_str(), endless)), answer + "\n");
  EXPECT_FALSE(encode(chat.c_str(), endless).ends) << "no token ends it";
}

/// If a template refuses the short chat from which the tail is found, the tail is the text after the content.
TEST_F(RowEncoderTest, TheEndIsFoundForTemplatesThatWantOtherChats) {
  const std::string picky =
      std::string("{% if messages[0].role != 'system' %}{{ raise_exception('no') }}{% endif %}") + kPlain;
  EXPECT_EQ(
      learned(encode(R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"},
      {"role": "assistant", "content": "a <|endoftext|> b"}]})",
                     picky.c_str())),
      "a <|endoftext|> b<|im_end|>");
}

TEST_F(RowEncoderTest, FieldsThatTheTemplateDoesNotPrintAreRefusedOrDroppedAndCounted) {
  const char* const call =
      R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": null,
      "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "R"},
      {"role": "assistant", "content": "A"}], "tools": [{"function": {"name": "f"}}]})";
  EXPECT_NE(refusal(call, kPlain).find("the chat template does not print tools"), std::string::npos);
  drop_unprinted_ = true;
  const EncodedRow row = encode(call, kPlain);
  EXPECT_EQ(row.dropped, (std::map<std::string, int64_t>{{"tool_calls", 1}, {"tools", 1}}));
  EXPECT_EQ(learned(row), "A<|im_end|>") << "an answer without words teaches nothing";
}

/// Finding answers by prefixes takes the square of the length, so overlong rows are refused at once.
TEST_F(RowEncoderTest, TooManyAnswersInOneRowAreRefused) {
  std::string chat;
  for (int i = 0; i < 50000; ++i)
    chat += std::string(i > 0 ? "," : "") +
            R"({"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"})";
  chat = "{\"messages\": [" + chat + "]}";
  EXPECT_NE(refusal(chat.c_str(), kPlain).find("50000 answers in a chat of"), std::string::npos);
  EXPECT_EQ(encode(chat.c_str(), kMarked).ends, true) << "marks take linear time";
}

TEST_F(RowEncoderTest, AnswersAndWhatEndsThemAreLearnedByMarksAndByPrefixes) {
  for (const char* source : {kPlain, kMarked}) {
    const EncodedRow row = encode(kChat, source);
    EXPECT_EQ(learned(row), "First answer.<|im_end|>Second \u00e4nswer<|im_end|>") << source;
    EXPECT_EQ(tokenizer_.decode(row.ids, false),
              "<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\nFirst answer.<|im_end|>\n"
              "<|im_start|>user\nTwo?<|im_end|>\n<|im_start|>assistant\nSecond \u00e4nswer<|im_end|>\n");
  }
}

TEST_F(RowEncoderTest, MessagesMayBeLeftOutOrWeighted) {
  for (const char* source : {kPlain, kMarked}) {
    const EncodedRow row = encode(
        R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "no", "train": false},
            {"role": "user", "content": "Q"}, {"role": "assistant", "content": "half", "weight": 0.5},
            {"role": "user", "content": "Q"}, {"role": "assistant", "content": "all"}]})",
        source);
    EXPECT_EQ(learned(row), "all<|im_end|>");
    EXPECT_EQ(learned(row, 0.5f), "half<|im_end|>");
  }
  const EncodedRow prompt = encode(R"({"prompt": [{"role": "user", "content": "Q"},
      {"role": "assistant", "content": "shown"}, {"role": "user", "content": "R"}],
      "completion": [{"role": "assistant", "content": "told"}]})",
                                   kPlain);
  EXPECT_EQ(learned(prompt), "told<|im_end|>");
  EXPECT_NE(refusal(R"({"messages": [{"role": "assistant", "content": "x", "weight": -1}]})", kPlain), "");
  EXPECT_NE(refusal(R"({"messages": [{"role": "assistant", "content": "x", "train": "no"}]})", kPlain), "");
}

TEST_F(RowEncoderTest, TextsAndCompletionsEndWithTheEndOfText) {
  EXPECT_EQ(learned(encode(R"({"text": "All of it"})", kPlain)), "All of it<|endoftext|>");
  EXPECT_EQ(learned(encode(R"({"text": "Once<|endoftext|>"})", kPlain)), "Once<|endoftext|>");
  const EncodedRow row = encode(R"({"prompt": "Two and two are", "completion": " four"})", kPlain);
  EXPECT_EQ(learned(row), " four<|endoftext|>");
  EXPECT_EQ(tokenizer_.decode(row.ids, false), "Two and two are four<|endoftext|>");
}

TEST_F(RowEncoderTest, ATemplateThatWritesEarlierTurnsAnewIsRefusedWithTheWaysOut) {
  const char* const forgets =
      "{% for m in messages %}{{ m.role }}: {% if m.role == 'user' or loop.last %}{{ m.content }}{% endif %}"
      "<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
  const std::string reason = refusal(kChat, forgets);
  EXPECT_NE(reason.find("generation"), std::string::npos) << reason;
  EXPECT_NE(reason.find("\"train\": false"), std::string::npos) << reason;
}

TEST_F(RowEncoderTest, WhatTheTemplateRefusesIsSaidInItsWords) {
  EXPECT_NE(refusal(kChat, "{{ raise_exception('only system') }}").find("only system"), std::string::npos);
  const RowEncoding without{tokenizer_, nullptr, {}, std::nullopt};
  EXPECT_THROW(RowEncoder(without).encode(training_row(OrderedJson::parse(kChat), "x"), "x"), Error);
}

}  // namespace row_encoder_test
}  // namespace hawser::text
