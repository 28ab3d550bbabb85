// Training templates test: a chat of several turns can be trained on where the model's own template rewrites
// earlier turns, and each answer has the tokens that the own template gives it as the last one. The templates
// here are short, with the expressions of the published ones; hugging_face_test.py compares those.
#include "engine/text/training_templates.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/text/answer_tail.h"
#include "engine/text/row_encoder.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace training_templates_test {

using testing::chat_tokenizer;
using testing::kModuleFolder;

constexpr const char* kQwen3 =
    R"({% set ns = namespace(last_query_index=0) %}{% for message in messages %})"
    R"({% if message.role == 'user' %}{% set ns.last_query_index = loop.index0 %}{% endif %}{% endfor %})"
    R"({% for message in messages %}{% set content = message.content %}{% set reasoning_content = '' %})"
    R"({% if '</think>' in content %})"
    R"({% set reasoning_content = content.split('</think>')[0].split('<think>')[-1].strip('\n') %})"
    R"({% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %})"
    R"({{ '<|im_start|>' + message.role + '\n' }}{% if message.role == 'assistant' %})"
    R"({% if loop.index0 > ns.last_query_index %})"
    R"({% if loop.last or (not loop.last and reasoning_content) %})"
    R"({{ '<think>\n' + reasoning_content + '\n</think>\n\n' }}{% endif %}{% endif %}{% endif %})"
    R"({{ content + '<|im_end|>\n' }}{% endfor %})"
    R"({% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";

constexpr const char* kQwQ =
    R"({% for message in messages %}{% set content = message.content %}{% if message.role == 'assistant' %})"
    R"({% if not loop.last %}{% set content = message.content.split('</think>')[-1].lstrip('\n') %}{% endif %})"
    R"({% endif %}{{ '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}{% endfor %})"
    R"({% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %})";

/// `prompt` follows the mark of an answer where one is to be generated.
std::string deepseek(const std::string& prompt) {
  return R"({% for message in messages %}{% if message.role == 'assistant' %})"
         R"({% set content = message.content %}{% if '</think>' in content %})"
         R"({% set content = content.split('</think>')[-1] %}{% endif %})"
         R"({{'<｜Assistant｜>' + content + '<|im_end|>'}}{% else %}{{'<｜User｜>' + message.content}}{% endif %})"
         R"({% endfor %}{% if add_generation_prompt %}{{'<｜Assistant｜)" +
         prompt + R"('}}{% endif %})";
}

constexpr const char* kMistral =
    R"({% if messages[0].role == 'system' %}{% set system_message = messages[0].content %})"
    R"({% set messages = messages[1:] %}{% endif %}{% for message in messages %}{% if message.role == 'user' %})"
    R"({% if loop.last and system_message is defined %}[INST]{{ system_message }} {{ message.content }}[/INST])"
    R"({% else %}[INST]{{ message.content }}[/INST]{% endif %})"
    R"({% else %}{{ message.content }}<|im_end|>{% endif %}{% endfor %})";

constexpr const char* kPlainChat =
    R"({"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "First."},
        {"role": "user", "content": "Two?"}, {"role": "assistant", "content": "Second."}]})";
constexpr const char* kReasonedChat =
    R"({"messages": [{"role": "user", "content": "One?"},
        {"role": "assistant", "content": "<think>\nWhy.\n</think>\n\nFirst."},
        {"role": "user", "content": "Two?"},
        {"role": "assistant", "content": "<think>\nHow.\n</think>\n\nSecond."}]})";

class TrainingTemplatesTest : public ::testing::Test {
 protected:
  std::unique_ptr<const TrainingTemplate> find(const std::string& source) const {
    return find_training_template(ChatTemplate(source, "own", kModuleFolder), {}, 0, kModuleFolder);
  }
  EncodedRow encode(const std::string& json, const std::string& source) const {
    const ChatTemplate own(source, "own", kModuleFolder);
    const auto training = find_training_template(own, {}, 0, kModuleFolder);
    const auto encoding = [&](const ChatTemplate& chat_template, const RowEncoding* other) {
      return RowEncoding{tokenizer_, &chat_template,
                         {},         tokenizer_.id("<|endoftext|>"),
                         0,          answer_tail(chat_template, {}, 0),
                         false,      other};
    };
    const RowEncoding for_training = encoding(training ? *training->chat_template : own, nullptr);
    const RowEncoding usual = encoding(own, training ? &for_training : nullptr);
    return RowEncoder(usual).encode(training_row(OrderedJson::parse(json), "x:1"), "x:1");
  }
  std::string text(const EncodedRow& row) const { return tokenizer_.decode(row.ids, false); }
  std::string learned(const EncodedRow& row) const {
    std::vector<uint32_t> ids;
    for (size_t i = 0; i < row.ids.size(); ++i)
      if (row.weights[i] != 0) ids.push_back(row.ids[i]);
    return tokenizer_.decode(ids, false);
  }
  /// Renders the first `count` messages of a chat of plain texts.
  static std::string render(const ChatTemplate& chat_template, const OrderedJson& messages, size_t count,
                            bool prompt) {
    const OrderedJson part(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
    return chat_template.render(OrderedJson{{"messages", part}, {"add_generation_prompt", prompt}}.dump(), 0)
        .text;
  }

  const Tokenizer tokenizer_ = chat_tokenizer();
};

TEST_F(TrainingTemplatesTest, FamiliesAreRecognisedByWhatTheyRewrite) {
  const std::pair<std::string, std::string_view> cases[] = {{kQwen3, "qwen3"},
                                                            {kQwQ, "qwq"},
                                                            {deepseek("><think>\\n"), "deepseek-r1"},
                                                            {deepseek(">"), "deepseek-r1"},
                                                            {kMistral, "mistral"}};
  for (const auto& [source, family] : cases) {
    const auto found = find(source);
    ASSERT_TRUE(found) << source;
    EXPECT_EQ(found->family, family);
    EXPECT_FALSE(found->reason.empty());
  }
}

/// The beginning of a chat is rendered the same however it continues, with and without the prompt.
TEST_F(TrainingTemplatesTest, MoreTurnsOnlyAddText) {
  for (const std::string& source :
       {std::string(kQwen3), std::string(kQwQ), deepseek("><think>\\n"), deepseek(">")}) {
    const auto found = find(source);
    ASSERT_TRUE(found) << source;
    const ChatTemplate own(source, "own", kModuleFolder);
    for (const char* chat : {kPlainChat, kReasonedChat}) {
      const OrderedJson messages = OrderedJson::parse(chat)["messages"];
      const ChatTemplate& variant = *found->chat_template;
      const std::string all = render(variant, messages, messages.size(), false);
      for (size_t count = 1; count < messages.size(); ++count) {
        EXPECT_EQ(all.find(render(variant, messages, count, false)), 0u) << source << count;
        if (count % 2 == 1) {
          EXPECT_EQ(all.find(render(variant, messages, count, true)), 0u) << source << count;
        }
      }
      EXPECT_NE(all.find(render(own, messages, 1, true)), std::string::npos) << "the model's own prompt";
    }
  }
}

TEST_F(TrainingTemplatesTest, AllAnswersAreLearnedWithTheirReasoning) {
  const EncodedRow plain = encode(kPlainChat, kQwen3);
  EXPECT_TRUE(plain.by_training_template);
  EXPECT_EQ(learned(plain),
            "<think>\n\n</think>\n\nFirst.<|im_end|><think>\n\n</think>\n\nSecond.<|im_end|>");
  EXPECT_EQ(learned(encode(kReasonedChat, kQwen3)),
            "<think>\nWhy.\n</think>\n\nFirst.<|im_end|><think>\nHow.\n</think>\n\nSecond.<|im_end|>");
  for (const std::string& source : {std::string(kQwQ), deepseek("><think>\\n")}) {
    EXPECT_EQ(learned(encode(kPlainChat, source)),
              "\n</think>\n\nFirst.<|im_end|>\n</think>\n\nSecond.<|im_end|>")
        << source << ": the prompt opens the reasoning, so the model closes it";
    EXPECT_EQ(learned(encode(kReasonedChat, source)),
              "Why.\n</think>\n\nFirst.<|im_end|>How.\n</think>\n\nSecond.<|im_end|>");
  }
  EXPECT_EQ(learned(encode(kReasonedChat, deepseek(">"))),
            "<think>\nWhy.\n</think>\n\nFirst.<|im_end|><think>\nHow.\n</think>\n\nSecond.<|im_end|>");
}

/// The model's own template stays in use where it can mark the answers.
TEST_F(TrainingTemplatesTest, RowsThatTheModelsOwnTemplateMarksKeepItsTokens) {
  const char* const chats[] = {
      R"({"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "First."}]})",
      R"({"messages": [{"role": "user", "content": "One?"},
          {"role": "assistant", "content": "<think>\nWhy.\n</think>\n\nFirst.", "train": false},
          {"role": "user", "content": "Two?"},
          {"role": "assistant", "content": "<think>\nHow.\n</think>\n\nSecond."}]})"};
  const ChatTemplate own(kQwen3, "own", kModuleFolder);
  for (const char* chat : chats) {
    const OrderedJson messages = OrderedJson::parse(chat)["messages"];
    const EncodedRow row = encode(chat, kQwen3);
    EXPECT_FALSE(row.by_training_template);
    EXPECT_EQ(text(row), render(own, messages, messages.size(), false));
  }
  EXPECT_EQ(learned(encode(chats[1], kQwen3)), "<think>\nHow.\n</think>\n\nSecond.<|im_end|>");
  EXPECT_FALSE(encode(kPlainChat, deepseek(">")).by_training_template) << "nothing is left out";
}

TEST_F(TrainingTemplatesTest, MistralsSystemTextStandsInTheFirstQuestion) {
  const std::string chat =
      R"({"messages": [{"role": "system", "content": "Rule."}, {"role": "user", "content": "One?"},
          {"role": "assistant", "content": "First."}, {"role": "user", "content": "Two?"},
          {"role": "assistant", "content": "Second."}]})";
  const EncodedRow row = encode(chat, kMistral);
  EXPECT_EQ(text(row), "[INST]Rule. One?[/INST]First.<|im_end|>[INST]Two?[/INST]Second.<|im_end|>");
  EXPECT_EQ(learned(row), "First.<|im_end|>Second.<|im_end|>");
}

/// A template with the expressions of a family that also rewrites turns in another way fails the check.
TEST_F(TrainingTemplatesTest, TemplatesOfOtherKindsHaveNone) {
  const std::string qwen3 = kQwen3;
  EXPECT_FALSE(find("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"));
  EXPECT_FALSE(find(qwen3 + "{{ messages | length }}"));
  std::string other_prompt = qwen3;
  other_prompt.insert(other_prompt.rfind("{% endif %}"), "So: ");
  EXPECT_FALSE(find(other_prompt)) << "answers do not follow the prompt";
  EXPECT_FALSE(find(qwen3 + "{% if false %}{% generation %}x{% endgeneration %}{% endif %}"));
  EXPECT_FALSE(find(qwen3 + "{{ raise_exception('no') }}"));
  try {
    encode(kPlainChat, qwen3 + "{{ messages | length }}");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--template chatml"), std::string::npos) << error.what();
  }
}

}  // namespace training_templates_test
}  // namespace hawser::text
