// Chat template test: templates render as in Transformers. tests/text/hugging_face_test.py compares all
// templates of TRL.
#include "engine/text/chat_template.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace chat_template_test {

using testing::kModuleFolder;

constexpr int64_t kNow = 1780000000;  // 2026-05-28, 20:26:40 UTC
constexpr const char* kChat =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello \"you\""}],
        "eos_token": "</s>", "add_generation_prompt": true, "tools": null})";

RenderedChat render(const std::string& source, const std::string& variables = kChat) {
  return ChatTemplate(source, "the template", kModuleFolder).render(variables, kNow);
}

std::string refusal(const std::string& source, const std::string& variables = kChat) {
  try {
    render(source, variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataInvalid);
    return error.what();
  }
  return "";
}

TEST(ChatTemplate, BlocksTakeTheirLinesAway) {
  const std::string source = R"({% for message in messages %}
    {% if message.role == 'user' %}
<user>{{ message['content'] }}{% else %}
<model>{{ message.content }}{{ eos_token }}{% endif %}

{% endfor %}
{% if add_generation_prompt %}
<model>
{% endif %})";
  EXPECT_EQ(render(source).text, "<user>Hi\n<model>Hello \"you\"</s>\n<model>\n");
}

TEST(ChatTemplate, ValuesPrintAsPython) {
  EXPECT_EQ(render("{{ tools }} {{ true }} {{ [1, 'a', none, {'b': 1.5}] }} {{ nothing }}|").text,
            "None True [1, 'a', None, {'b': 1.5}] |");
  EXPECT_EQ(render("{{ tools is iterable }} {{ 'x' is iterable }} {{ tools | string }}").text,
            "False True None");
  EXPECT_EQ(render("{{ 'a-b'.split('-')[-1] }} {{ ' x '.strip() }} {{ {'k': 1}.items() | list }}").text,
            "b x [('k', 1)]");
}

TEST(ChatTemplate, JsonIsThatOfPython) {
  EXPECT_EQ(render("{{ messages[1] | tojson }}").text,
            R"({"role": "assistant", "content": "Hello \"you\""})");
  EXPECT_EQ(render("{{ {'a': [1, {}], 'b': '<\u00e9>'} | tojson(indent=2) }}").text,
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"<\u00e9>\"\n}");
  EXPECT_EQ(render("{{ 1e-7 | tojson }} {{ 1e20 | tojson }} {{ 3.0 | tojson }}").text, "1e-07 1e+20 3.0");
}

TEST(ChatTemplate, GenerationMarksWhatIsLearned) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}<model>{% generation %}{{ m.content }}</s>"
      "{%- endgeneration %}\n{% else %}<user>{{ m.content }}{% endif %}{% endfor %}";
  const ChatTemplate chat_template(source, "the template", kModuleFolder);
  EXPECT_TRUE(chat_template.has_generation());
  const RenderedChat chat = chat_template.render(kChat, kNow);
  EXPECT_EQ(chat.text, "<user>Hi<model>Hello \"you\"</s>");
  ASSERT_EQ(chat.learned.size(), 1u);
  EXPECT_EQ(chat.text.substr(chat.learned[0].begin, chat.learned[0].end - chat.learned[0].begin),
            "Hello \"you\"</s>");
  EXPECT_FALSE(ChatTemplate("x", "the template", kModuleFolder).has_generation());
  EXPECT_NE(refusal("{% generation %}x").find("endgeneration"), std::string::npos);
  EXPECT_NE(refusal("{% generation %}{{ t }}{% endgeneration %}", "{\"t\": \"\xF4\x8F\xBF\xBE\"}"), "");
}

TEST(ChatTemplate, DatesAreThoseOfTheCaller) {
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %H:%M') }}").text, "28 May 2026, 20:26");
}

TEST(ChatTemplate, WhatATemplateRefusesComesInItsWords) {
  const std::string alternate = refusal("{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(alternate, "the template: line 1: roles must alternate");
  EXPECT_NE(refusal("\n\n{% if %}").find("line 3"), std::string::npos);
  EXPECT_NE(refusal("{{ nothing.at.all }}"), "");
  EXPECT_NE(refusal("{{ x }}", "not json"), "");
}

TEST(ChatTemplate, WhatDoesNotEndIsRefused) {
  const std::string loops =
      "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}"
      "{% endfor %}";
  EXPECT_NE(refusal(loops).find("does not end"), std::string::npos) << refusal(loops);
  EXPECT_NE(refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "");
}

}  // namespace chat_template_test
}  // namespace hawser::text
