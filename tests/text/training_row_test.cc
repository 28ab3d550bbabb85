// Training row test: every published form of a row becomes the same messages; errors name the key.
#include "engine/text/training_row.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace hawser::text {
namespace training_row_test {

TrainingRow read(const char* json) { return training_row(OrderedJson::parse(json), "data.jsonl:7"); }

std::string refusal(const char* json) {
  try {
    read(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataInvalid);
    EXPECT_EQ(std::string(error.what()).find("data.jsonl:7: "), 0u) << error.what();
    return error.what();
  }
  return "";
}

TEST(TrainingRow, ChatsOfAllFormsAreTheSame) {
  const OrderedJson expected = OrderedJson::parse(
      R"([{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}])");
  for (
      const char* json :
      {R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q", "name": null},
                         {"role": "assistant", "content": "A"}], "id": 3})",
       R"({"conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": "Q"},
                              {"from": "gpt", "value": "A"}]})",
       R"({"system": "S", "conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]})",
       R"({"conversations": [{"role": "system", "content": "S"}, {"role": "human", "content": "Q"},
                              {"role": "model", "content": "A"}]})",
       R"({"system": "S", "instruction": "Q", "input": "", "output": "A"})"}) {
    const TrainingRow row = read(json);
    EXPECT_EQ(row.form, RowForm::kChat);
    EXPECT_EQ(row.messages, expected) << row.messages.dump();
    EXPECT_TRUE(row.tools.is_null());
  }
}

TEST(TrainingRow, TextsCompletionsAndPairs) {
  EXPECT_EQ(read(R"({"text": "T"})").text, "T");
  const TrainingRow completion = read(R"({"prompt": "P", "completion": "C"})");
  EXPECT_EQ(completion.form, RowForm::kCompletion);
  EXPECT_EQ(completion.prompt + "|" + completion.completion, "P|C");
  const TrainingRow messages = read(R"({"prompt": [{"role": "user", "content": "Q"}],
                                        "completion": [{"role": "assistant", "content": "A"}]})");
  EXPECT_EQ(messages.form, RowForm::kChat);
  EXPECT_EQ(messages.messages[0]["train"], false);
  EXPECT_FALSE(messages.messages[1].contains("train"));
}

std::string prompt_of(const TrainingRow& answer) {
  std::string prompt;
  for (const OrderedJson& message : answer.messages)
    if (message.value("train", true) == false) prompt += message["content"].get<std::string>() + "|";
  return prompt;
}

/// As in TRL, the prompt is of the same kind as the answers; without one, it is their common beginning.
TEST(TrainingRow, PairsAreTwoAnswersToOnePrompt) {
  const auto texts = [](const char* json) {
    const TrainingRow row = read(json);
    EXPECT_EQ(row.form, RowForm::kPair);
    EXPECT_EQ(row.answers.at(0).prompt, row.answers.at(1).prompt);
    return row.answers[0].prompt + "[" + row.answers[0].completion + "][" + row.answers[1].completion + "]";
  };
  EXPECT_EQ(texts(R"({"prompt": "P", "chosen": "a", "rejected": "ab"})"), "P[a][ab]");
  EXPECT_EQ(texts(R"({"chosen": "The sky is blue", "rejected": "The sky is green"})"),
            "The sky is[ blue][ green]");
  EXPECT_EQ(texts(R"({"chosen": "Gr\u00fc\u00dfe", "rejected": "Gr\u00fc\u00e4"})"),
            "Gr\u00fc[\u00dfe][\u00e4]");
  for (
      const char* json :
      {R"({"prompt": [{"role": "user", "content": "Q"}], "chosen": [{"role": "assistant", "content": "A"}],
            "rejected": [{"role": "assistant", "content": "B"}]})",
       R"({"prompt": "Q", "chosen": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}],
            "rejected": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "B"}]})"}) {
    const TrainingRow row = read(json);
    ASSERT_EQ(row.answers.size(), 2u);
    EXPECT_EQ(prompt_of(row.answers[0]), "Q|");
    EXPECT_EQ(prompt_of(row.answers[1]), "Q|");
    EXPECT_EQ(row.answers[0].messages[1]["content"], "A") << json;
    EXPECT_EQ(row.answers[1].messages[1]["content"], "B") << json;
  }
}

TEST(TrainingRow, WhatIsNoPairIsNamed) {
  const auto says = [](const char* json, const char* words) {
    EXPECT_NE(refusal(json).find(words), std::string::npos) << refusal(json);
  };
  says(R"({"prompt": "P", "chosen": "a", "rejected": "a"})", "chosen equals rejected");
  says(R"({"chosen": "one", "rejected": "two"})", "has no prompt");
  says(R"({"prompt": "", "chosen": "a", "rejected": "b"})", "has no prompt");
  says(R"({"prompt": "P", "chosen": "", "rejected": "b"})", "chosen has no answer");
  says(R"({"chosen": "abc", "rejected": "ab"})", "rejected has no answer");
  says(R"({"prompt": ["P"], "chosen": "a", "rejected": "b"})", "prompt is [\"P\"]");
  says(R"({"prompt": "P", "chosen": "a", "rejected": [{"role": "assistant", "content": "b"}]})",
       "two strings or two arrays");
  says(R"({"chosen": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}],
           "rejected": [{"role": "user", "content": "R"}, {"role": "assistant", "content": "A"}]})",
       "has no prompt");
  says(R"({"chosen": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}],
           "rejected": [{"role": "user", "content": "Q"}]})",
       "rejected has no message");
  says(R"({"prompt": [{"role": "user", "content": "Q"}], "chosen": [{"role": "user", "content": "A"}],
           "rejected": [{"role": "assistant", "content": "B"}]})",
       "chosen has no message");
  says(
      R"({"prompt": [{"role": "user", "content": "Q"}], "chosen": [{"role": "assistant", "content": "A", "weight": 2}],
           "rejected": [{"role": "assistant", "content": "B"}]})",
      "\"weight\"");
}

TEST(TrainingRow, ToolCallsHaveObjectsAsArguments) {
  const TrainingRow row = read(
      R"({"tools": "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]",
          "messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": null, "tool_calls":
              [{"type": "function", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}}]},
            {"role": "tool", "content": "r"}]})");
  EXPECT_EQ(row.tools[0]["function"]["name"], "f");
  EXPECT_EQ(row.messages[1]["content"], "");
  EXPECT_EQ(row.messages[1]["tool_calls"][0]["function"]["arguments"].dump(), R"({"b":1,"a":2})");
  const TrainingRow sharegpt = read(R"({"conversations": [{"from": "human", "value": "Q"},
      {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
      {"from": "observation", "value": "r"}, {"from": "gpt", "value": "A", "weight": 0.5}]})");
  EXPECT_EQ(sharegpt.messages[1]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(sharegpt.messages[2]["role"], "tool");
  EXPECT_EQ(sharegpt.messages[3]["weight"], 0.5);
}

TEST(TrainingRow, WhatIsWrongIsNamed) {
  EXPECT_NE(refusal("[]").find("object"), std::string::npos);
  EXPECT_NE(refusal(R"({"question": "Q"})").find("\"instruction\" and \"output\""), std::string::npos);
  EXPECT_NE(refusal(R"({"text": 7})").find("text"), std::string::npos);
  EXPECT_NE(refusal(R"({"messages": []})").find("empty"), std::string::npos);
  EXPECT_NE(refusal(R"({"messages": "x"})").find("array"), std::string::npos);
  EXPECT_NE(refusal(R"({"messages": [{"role": "usr", "content": "x"}]})").find("messages/0/role is \"usr\""),
            std::string::npos);
  EXPECT_NE(refusal(R"({"messages": [{"content": "x"}]})").find("messages/0 has no \"role\""),
            std::string::npos);
  EXPECT_NE(refusal(R"({"messages": [{"role": "user"}]})").find("content"), std::string::npos);
  EXPECT_NE(refusal(R"({"messages": [{"role": "user", "content": 5}]})").find("content is 5; it must be"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"conversations": [{"from": "human"}]})").find("value"), std::string::npos);
  EXPECT_NE(refusal(R"({"messages": [{"role": "assistant", "content": "", "tool_calls":
      [{"function": {"name": "f", "arguments": "{"}}]}]})")
                .find("not JSON"),
            std::string::npos);
}

}  // namespace training_row_test
}  // namespace hawser::text
