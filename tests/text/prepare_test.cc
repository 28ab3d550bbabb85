// Prepare test: files of rows become prepared folders: forms, tokens to train on, any number of threads,
// refused files.
#include "engine/prepare/prepare.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/data/prepared_folder.h"
#include "tests/data/data_files.h"
#include "tests/text/golden.h"

namespace hawser::train {
namespace prepare_test {

using data::expect_error;

std::string model(const std::string& family) { return std::string(HAWSER_GOLDEN) + "/tokenizers/" + family; }

constexpr const char* kChats =
    R"({"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "First."}]}
{"conversations": [{"from": "human", "value": "Two?"}, {"from": "gpt", "value": "Second."}]}
{"instruction": "Three?", "input": "really", "output": "Third."}
{"prompt": "Four? ", "completion": "Fourth."}
{"text": "Five, all of it."}
)";

class PrepareTest : public data::DataTest {
 protected:
  PrepareRequest request(std::vector<std::string> files) const {
    PrepareRequest request;
    request.model = model("llama3");
    request.files = std::move(files);
    request.out = path("out");
    request.sequence = 64;
    request.chat_template = "plain";
    request.threads = 2;
    request.module_folder = text::testing::kModuleFolder;
    return request;
  }
  static Json run(const PrepareRequest& request) {
    return Json::parse(prepare(request, [](const PrepareProgress&) {}));
  }
  static Json refuse(const PrepareRequest& request, Code code, const std::vector<std::string>& texts) {
    expect_error(code, texts, [&] { run(request); });
    EXPECT_FALSE(std::filesystem::exists(request.out)) << "an error leaves nothing";
    return {};
  }
  /// Returns the text to train on of all documents, in the order of their texts.
  std::vector<std::string> learned(const PrepareRequest& request) const {
    std::vector<std::string> parts;
    Json row = Json::parse(preview(request.out, 0, request.module_folder));
    for (int64_t i = 0; i < row["rows"]; ++i) {
      row = Json::parse(preview(request.out, i, request.module_folder));
      for (const Json& document : row["documents"])
        for (const Json& span : document["learned"])
          parts.push_back(document["text"].get<std::string>().substr(
              span[0], span[1].get<size_t>() - span[0].get<size_t>()));
    }
    std::sort(parts.begin(), parts.end());
    return parts;
  }
  static std::string all_bytes(const std::string& folder) {
    std::string all;
    for (const char* name :
         {data::kPreparedManifest, data::kPreparedTokens, data::kPreparedMarks, data::kPreparedWeights})
      all += text::testing::read_file(folder + "/" + name) + "|";
    return all;
  }
  std::string many_chats(int count) const {
    std::string lines;
    for (int i = 0; i < count; ++i)
      lines += R"({"messages": [{"role": "user", "content": "What is )" + std::to_string(i * 37 % 101) +
               R"(?"}, {"role": "assistant", "content": ")" +
               std::string(static_cast<size_t>(1 + i * 13 % 40), 'a') + R"( words", "weight": )" +
               (i % 5 == 0 ? "0.5" : "1") + "}]}\n";
    return write("many.jsonl", lines);
  }
};

TEST_F(PrepareTest, EachFormTeachesItsAnswer) {
  const PrepareRequest asked = request({write("rows.jsonl", kChats)});
  const Json report = run(asked);
  EXPECT_EQ(report["rows"], 5);
  EXPECT_EQ(report["documents"], 5);
  EXPECT_EQ(report["forms"]["chat"], 3);
  const std::vector<std::string> parts = learned(asked);
  for (const char* answer : {"First.", "Second.", "Third.", "Fourth.", "all of it."}) {
    const bool found = std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
      return part.find(answer) != std::string::npos;
    });
    EXPECT_TRUE(found) << answer;
  }
  for (const char* question : {"One?", "Two?", "Three?", "Four?"})
    for (const std::string& part : parts) EXPECT_EQ(part.find(question), std::string::npos) << part;
}

TEST_F(PrepareTest, ArraysAndTextsGiveTheSameAsLines) {
  const PrepareRequest lines =
      request({write("a.jsonl", "{\"text\": \"One.\"}\n{\"text\": \"Two\\n]},\"}\n")});
  PrepareRequest array =
      request({write("a.json", " [\n{\"text\": \"One.\"},\n {\"text\": \"Two\\n]},\"}]\n")});
  array.out = path("array");
  run(lines);
  run(array);
  EXPECT_EQ(text::testing::read_file(lines.out + "/tokens.bin"),
            text::testing::read_file(array.out + "/tokens.bin"));
}

/// The files of tests/text/parquet have messages as lists of structs with nulls, completions, and texts in a
/// byte column.
TEST_F(PrepareTest, ParquetGivesTheSameAsLines) {
  for (const std::string name : {"chats", "completions", "texts"}) {
    std::string written[2];
    int i = 0;
    for (const char* ending : {".jsonl", ".parquet"}) {
      PrepareRequest asked = request({std::string(HAWSER_PARQUET) + "/" + name + ending});
      asked.out = path(name + ending);
      const Json report = run(asked);
      EXPECT_EQ(report["weighted"], name == "chats");
      EXPECT_EQ(report["files"][0]["rows"], name == "texts" ? 3 : 2);
      for (const char* part : {data::kPreparedTokens, data::kPreparedMarks, data::kPreparedWeights})
        written[i] += text::testing::read_file(asked.out + "/" + part) + "|";
      ++i;
    }
    EXPECT_GT(written[0].size(), 100u);
    EXPECT_EQ(written[0], written[1]) << name;
  }
}

TEST_F(PrepareTest, ATextGoesOnInTheNextRow) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "Line " + std::to_string(i) + " of a long text.\n";
  PrepareRequest asked = request({write("long.txt", text)});
  const Json report = run(asked);
  EXPECT_EQ(report["cut"]["rows"], 0);
  EXPECT_GT(report["files"][0]["rows"], 2) << "pieces";
  std::string all;
  int64_t tokens = report["tokens"];
  EXPECT_GT(report["learned_share"], 0.95);
  EXPECT_LT(report["empty_share"], 0.05);
  EXPECT_GT(tokens, 3000);
}

TEST_F(PrepareTest, AnyNumberOfThreadsWritesTheSameBytes) {
  std::string first;
  for (const int32_t threads : {1, 2, 5}) {
    PrepareRequest asked = request({many_chats(400)});
    asked.threads = threads;
    asked.out = path("out" + std::to_string(threads));
    EXPECT_TRUE(run(asked)["weighted"]);
    const std::string bytes = all_bytes(asked.out);
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << threads << " threads";
  }
}

TEST_F(PrepareTest, TheSameRequestFindsItsFolder) {
  const PrepareRequest asked = request({many_chats(40)});
  EXPECT_FALSE(run(asked)["reused"]);
  const std::string bytes = all_bytes(asked.out);
  EXPECT_TRUE(run(asked)["reused"]);
  PrepareRequest other = asked;
  other.sequence = 32;
  expect_error(Code::kAlreadyExists, {"other settings"}, [&] { run(other); });
  write("many.jsonl", kChats);
  expect_error(Code::kAlreadyExists, {"other files"}, [&] { run(asked); });
  EXPECT_EQ(all_bytes(asked.out), bytes);
  other.out = path("taken");
  std::filesystem::create_directory(other.out);
  expect_error(Code::kAlreadyExists, {"holds no prepared rows"}, [&] { run(other); });
}

TEST_F(PrepareTest, LongRowsAreCutOrDropped) {
  const std::string file = many_chats(100);
  PrepareRequest asked = request({file});
  asked.sequence = 24;
  const Json cut = run(asked);
  EXPECT_GT(cut["cut"]["rows"], 0);
  EXPECT_EQ(cut["dropped"]["longer_than_sequence"], 0);
  asked.out = path("dropped");
  asked.drop_long = true;
  const Json dropped = run(asked);
  EXPECT_EQ(dropped["cut"]["rows"], 0);
  EXPECT_EQ(dropped["dropped"]["longer_than_sequence"].get<int64_t>() + dropped["documents"].get<int64_t>(),
            100);
  asked.out = path("beyond");
  asked.drop_long = false;
  asked.sequence = 4;
  refuse(asked, Code::kDataInvalid, {"no row is left", "100 have their answer beyond"});
}

TEST_F(PrepareTest, RowsThatTeachNothingAreCounted) {
  const std::string silent =
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "train": false}]})";
  PrepareRequest asked = request({write("silent.jsonl", silent + "\n" + kChats)});
  EXPECT_EQ(run(asked)["dropped"]["nothing_learned"], 1);
  asked.files = {write("all.jsonl", silent)};
  asked.out = path("none");
  refuse(asked, Code::kDataInvalid, {"no row is left", "1 have no target"});
}

TEST_F(PrepareTest, SaysWhereARowIsWrong) {
  const auto row = [&](const std::string& bad, const std::vector<std::string>& texts) {
    refuse(request({write("bad.jsonl", "{\"text\": \"fine\"}\n\n" + bad + "\n")}), Code::kDataInvalid, texts);
  };
  row(R"({"text" "x"})", {"bad.jsonl:3:11", "expected ':'"});
  row("{\"text\": \"a\xff\"}", {"bad.jsonl:3:12", "0xff", "offset 29"});
  row(R"({"words": "x"})", {"bad.jsonl:3", "none of the known sets of keys"});
  row(R"({"messages": [{"role": "wizard", "content": "x"}]})", {"bad.jsonl:3", "wizard", "known roles"});
  row(R"({"chosen": "a", "rejected": "b"})", {"bad.jsonl:3", "has no prompt"});
  row(R"({"prompt": "P", "chosen": "a", "rejected": "b"})",
      {"bad.jsonl:3", "a pair", "earlier rows", "are not"});
  row(std::string(70, '[') + std::string(70, ']'), {"bad.jsonl:3:65", "more than 64 levels"});
  row("{\"text\": \"x\"", {"bad.jsonl:3:13", "expected"});
  refuse(request({write("bad.json", "[{\"text\": \"x\"}\n {\"text\":\n 1 2}]")}), Code::kDataInvalid,
         {"bad.json:3:4"});
  refuse(request({write("bad.json", "[{\"text\": \"x\"}, 3]")}), Code::kDataInvalid,
         {"bad.json:1:17", "an object"});
  refuse(request({write("bad.json", "[{\"text\": \"x\"}")}), Code::kDataInvalid,
         {"bad.json:1:15", "ends within"});
  refuse(request({write("bad.txt", "fine\n\xc3(")}), Code::kDataInvalid, {"bad.txt:2:1", "offset 5"});
  refuse(request({write("empty.jsonl", "\n")}), Code::kDataInvalid, {"empty"});
  refuse(request({path("nowhere")}), Code::kNotFound, {"nowhere"});
}

/// Every pair is two adjacent rows with the same prompt: first the chosen answer, then the rejected one.
TEST_F(PrepareTest, PairsStayTogetherWithTheChosenAnswerFirst) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    const std::string question = "Question " + std::to_string(i) + "? ";
    lines += R"({"prompt": ")" + question + R"(", "chosen": "Good )" + std::to_string(i) +
             R"(", "rejected": "Bad )" + std::to_string(i) + "\"}\n";
  }
  PrepareRequest asked = request({write("pairs.jsonl", lines)});
  asked.sequence = 32;
  const Json report = run(asked);
  EXPECT_EQ(report["pairs"], true);
  EXPECT_EQ(report["packed"], false);
  EXPECT_EQ(report["prepared_rows"], 80);
  bool in_order = true;
  for (int64_t i = 0; i < 80; i += 2) {
    std::string learned[2], prompts[2];
    for (int64_t row : {0, 1}) {
      const Json shown = Json::parse(preview(asked.out, i + row, asked.module_folder));
      ASSERT_EQ(shown["documents"].size(), 1u);
      const std::string text = shown["documents"][0]["text"];
      const size_t begin = shown["documents"][0]["learned"][0][0];
      prompts[row] = text.substr(0, begin);
      learned[row] = text.substr(begin);
    }
    EXPECT_EQ(prompts[0], prompts[1]);
    EXPECT_EQ(learned[0].find("Good "), 0u) << learned[0];
    EXPECT_EQ(learned[1].find("Bad "), 0u) << learned[1];
    in_order = in_order && prompts[0].find("Question " + std::to_string(i / 2) + "?") != std::string::npos;
  }
  EXPECT_FALSE(in_order) << "pairs are shuffled";
}

TEST_F(PrepareTest, PairsAreCutOrDroppedTogether) {
  const auto pair = [](const std::string& chosen, const std::string& rejected) {
    return R"({"prompt": "Say: ", "chosen": ")" + chosen + R"(", "rejected": ")" + rejected + "\"}\n";
  };
  const std::string tail(200, '7');
  const std::string lines =
      pair("short", "brief") + pair("long" + tail, "brief") + pair(tail + "1", tail + "2");
  PrepareRequest asked = request({write("pairs.jsonl", lines)});
  asked.sequence = 24;
  const Json cut = run(asked);
  EXPECT_EQ(cut["prepared_rows"], 4);
  EXPECT_EQ(cut["cut"]["rows"], 1);
  EXPECT_EQ(cut["dropped"]["answer_cut_away"], 1) << "the answers differ beyond the cut";
  asked.out = path("dropped");
  asked.drop_long = true;
  const Json dropped = run(asked);
  EXPECT_EQ(dropped["prepared_rows"], 2);
  EXPECT_EQ(dropped["dropped"]["longer_than_sequence"], 2);
}

TEST_F(PrepareTest, ARequestSaysWhetherRowsArePairs) {
  const std::string pair = R"({"prompt": "P", "chosen": "a", "rejected": "b"})", text = R"({"text": "x"})";
  PrepareRequest asked = request({write("rows.jsonl", pair + "\n")});
  asked.pairs = false;
  refuse(asked, Code::kDataInvalid, {"rows.jsonl:1", "is a pair", "--dpo"});
  asked.pairs = true;
  asked.files = {write("rows.jsonl", text + "\n")};
  refuse(asked, Code::kDataInvalid, {"rows.jsonl:1", "not a pair"});
  asked.files = {write("text.txt", "words\n")};
  refuse(asked, Code::kDataInvalid, {"text.txt:1", "no pairs"});
  asked.pairs.reset();
  asked.files = {write("rows.jsonl", pair + "\n" + text + "\n")};
  refuse(asked, Code::kDataInvalid, {"rows.jsonl:2", "not a pair", "separately"});
}

TEST_F(PrepareTest, SaysWhatIsWrongWithTheModel) {
  const std::string rows = write("rows.jsonl", kChats);
  PrepareRequest asked = request({rows});
  asked.chat_template.clear();
  refuse(asked, Code::kDataInvalid, {"has no chat template", "chatml"});
  asked.chat_template = "chatml";
  refuse(asked, Code::kDataInvalid, {"<|im_start|>", "does not have"});
  asked.chat_template = "mine";
  refuse(asked, Code::kNotFound, {"no built-in template", "plain"});
  asked.chat_template = write("endless.jinja", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  refuse(asked, Code::kDataInvalid, {"rows.jsonl:1", "line 1"});
  asked.chat_template = write("strict.jinja", "{{ raise_exception('only tools here') }}");
  refuse(asked, Code::kDataInvalid, {"rows.jsonl:1", "only tools here"});
  asked.chat_template = "plain";
  asked.model = path("");
  refuse(asked, Code::kNotFound, {"tokenizer.json"});
  std::filesystem::copy(model("llama3") + "/tokenizer.json", path("tokenizer.json"));
  write("config.json", R"({"vocab_size": 300})");
  refuse(asked, Code::kDataInvalid, {"300 embeddings", "another model"});
}

TEST_F(PrepareTest, ABeginningTwiceIsRefused) {
  std::filesystem::copy(model("llama2") + "/tokenizer.json", path("tokenizer.json"));
  write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  PrepareRequest asked = request({write("rows.jsonl", R"({"text": "<s> hello"})")});
  asked.model = path("");
  refuse(asked, Code::kDataInvalid, {"rows.jsonl:1", "begins with <s> twice"});
}

TEST_F(PrepareTest, RequestsThatMakeNoSense) {
  const auto wrong = [](const std::string& json, const std::vector<std::string>& texts) {
    expect_error(Code::kInvalidArgument, texts, [&] { parse_prepare_request(json); });
  };
  wrong("{", {"the request is not valid JSON", "byte 2"});
  wrong("[]", {"the request is not a JSON object"});
  wrong("{\"model\": " + std::string(100, '[') + std::string(100, ']') + "}",
        {"the request", "nested deeper than 64 levels"});
  wrong(R"({"seed": 1, "seed": 2})", {"the request: the key 'seed' appears twice"});
  wrong("{}", {"\"model\" is missing"});
  wrong(R"({"model": 3})", {"\"model\" is 3"});
  wrong(R"({"files": []})", {"at least one path"});
  wrong(R"({"sequence": 1})", {"from 2 to"});
  wrong(R"({"long": "wrap"})", {"\"cut\" or \"drop\""});
  wrong(R"({"sequnce": 1})", {"is not a known key"});
}

/// Only the calling thread has a poll, which also ends the work of the other threads.
TEST_F(PrepareTest, ThePollOfTheCallerEndsTheWorkOfAllThreads) {
  // A file with a short row and one of `bytes`.
  const auto file_of = [this](const char* name, size_t bytes) {
    std::string row;
    for (uint32_t i = 1; row.size() < bytes; i = i * 1664525 + 1013904223)
      row += i >> 29 == 0 ? ' ' : static_cast<char>('a' + (i >> 16) % 26);
    return write(name, "{\"text\": \"short\"}\n{\"text\": \"" + row + "\"}\n");
  };
  using Clock = std::chrono::steady_clock;
  PrepareRequest part = request({file_of("part.jsonl", 2 << 20)});
  part.out = path("part");
  const Clock::time_point part_began = Clock::now();
  run(part);
  const Clock::duration part_time = Clock::now() - part_began;
  const std::string rows = file_of("rows.jsonl", 8 << 20);
  struct State {
    Clock::time_point began = Clock::now(), ended{};
  } state;
  set_interrupt_poll(
      [](void* user) {
        auto* const state = static_cast<State*>(user);
        if (Clock::now() - state->began < std::chrono::milliseconds(300)) return false;
        if (state->ended == Clock::time_point()) state->ended = Clock::now();
        return true;
      },
      &state);
  refuse(request({rows}), Code::kCancelled, {"interrupt"});
  EXPECT_LT(Clock::now() - state.ended, part_time) << "a quarter of the row would have taken as long";
  set_interrupt_poll(nullptr, nullptr);
}

}  // namespace prepare_test
}  // namespace hawser::train
