// Unprinted test: text in a row that its template does not print is found in every form of row.
#include "engine/text/unprinted.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/text/chat_template.h"
#include "engine/text/training_row.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace unprinted_test {

constexpr const char* kContents = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
constexpr const char* kAll =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ "
    "m.reasoning_content }}"
    "{{ m.content }}{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}\n{% endfor %}";

/// Returns the paths of the fields that the template does not print.
std::vector<std::string> unprinted(const char* source, const std::string& row) {
  const TrainingRow parsed = training_row(OrderedJson::parse(row), "x:1");
  const ChatTemplate chat_template(source, "the template", testing::kModuleFolder);
  const auto render = [&](const OrderedJson& messages,
                          const OrderedJson& tools) -> std::optional<std::string> {
    try {
      return chat_template.render(OrderedJson{{"messages", messages}, {"tools", tools}}.dump(), 0).text;
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  std::vector<std::string> paths;
  for (const UnprintedField& field :
       find_unprinted(parsed.messages, parsed.tools, render(parsed.messages, parsed.tools).value(), render))
    paths.push_back(field.path());
  return paths;
}

using Paths = std::vector<std::string>;

constexpr const char* kCall =
    R"({"messages": [{"role": "user", "content": "What is 6 times 7? multiply"},
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function",
         "function": {"name": "multiply", "arguments": {"a": "6", "b": "7"}}}]}],
        "tools": [{"type": "function", "function": {"name": "multiply"}}]})";

TEST(Unprinted, ToolCallsAndToolsAreFoundEvenIfTheirWordsStandElsewhere) {
  EXPECT_EQ(unprinted(kContents, kCall), (Paths{"tools", "messages/1/tool_calls"}));
  EXPECT_EQ(unprinted(kAll, kCall), Paths{});
}

TEST(Unprinted, FunctionCallsOfShareGptAreFound) {
  const char* const row = R"({"conversations": [{"from": "human", "value": "6 times 7?"},
      {"from": "function_call", "value": "{\"name\": \"multiply\", \"arguments\": {\"a\": 6}}"}]})";
  EXPECT_EQ(unprinted(kContents, row), Paths{"messages/1/tool_calls"});
  EXPECT_EQ(unprinted(kAll, row), Paths{});
}

TEST(Unprinted, ThoughtsAreFoundAlsoIfOnlyThoseOfTheLastTurnArePrinted) {
  const char* const row = R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b", "reasoning_content": "first thought"}, {"role": "user", "content": "c"},
      {"role": "assistant", "content": "d", "reasoning_content": "second thought"}]})";
  EXPECT_EQ(unprinted(kContents, row),
            (Paths{"messages/1/reasoning_content", "messages/3/reasoning_content"}));
  EXPECT_EQ(unprinted(kAll, row), Paths{});
  EXPECT_EQ(
      unprinted("{% for m in messages %}{{ m.content }}{% if loop.last %}{{ m.reasoning_content }}{% endif %}"
                "{% endfor %}",
                row),
      Paths{"messages/1/reasoning_content"});
}

TEST(Unprinted, AMessageThatTheTemplateSkipsIsFound) {
  const char* const row =
      R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"},
          {"role": "assistant", "content": "b"}]})";
  EXPECT_EQ(
      unprinted("{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}",
                row),
      Paths{"messages/0/content"});
  EXPECT_EQ(unprinted("{% for m in messages %}{{ m.content | upper }}{% endfor %}", row), Paths{})
      << "changed, not lost";
}

TEST(Unprinted, MetadataAndEmptyFieldsAreNotWords) {
  EXPECT_EQ(unprinted(kContents, R"({"id": 3, "messages": [{"role": "user", "content": "a", "id": "x"},
      {"role": "assistant", "content": "b", "weight": 0.5, "tool_calls": [], "reasoning_content": ""}], "tools": []})"),
            Paths{});
}

}  // namespace unprinted_test
}  // namespace hawser::text
