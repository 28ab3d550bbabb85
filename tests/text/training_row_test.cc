// Every published form of a row becomes the same messages; what is wrong is named by its key.
#include "engine/text/training_row.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace hawser::text {
namespace {

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
  EXPECT_EQ(read(R"({"prompt": "P", "chosen": "a", "rejected": "b"})").form, RowForm::kPair);
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

}  // namespace
}  // namespace hawser::text
