// Tests that `hawser eval` gives the results of lm-evaluation-harness (tests/golden/eval_tiny), and that it
// refuses invalid questions.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace eval_test {

using nlohmann::json;

const std::string kCase = std::string(HAWSER_GOLDEN) + "/eval_tiny";

class Eval : public CommandTest {
 protected:
  json measured(const std::string& arguments) {
    return json::parse(succeed("eval " + arguments + " --json").out);
  }
};

TEST_F(Eval, ChoicesAreScoredAsTheHarnessScoresThem) {
  if (!HAWSER_HAS_TEXT) GTEST_SKIP() << "this build has no text module";
  const json expected = json::parse(read_text(kCase + "/results.json"));
  const json got = measured(kCase + " --choices " + kCase + "/hellaswag.jsonl");
  EXPECT_EQ(got["acc"], expected["hellaswag"]["acc"]);
  EXPECT_EQ(got["acc_norm"], expected["hellaswag"]["acc_norm"]);
  ASSERT_EQ(got["rows"].size(), expected["rows"].size());
  for (size_t i = 0; i < got["rows"].size(); ++i) {
    const json &ours = got["rows"][i], &theirs = expected["rows"][i];
    EXPECT_EQ(ours["acc"].get<double>(), theirs["acc"].get<double>()) << theirs["query"];
    EXPECT_EQ(ours["acc_norm"].get<double>(), theirs["acc_norm"].get<double>()) << theirs["query"];
    ASSERT_EQ(ours["loglikelihoods"].size(), theirs["loglikelihoods"].size());
    for (size_t c = 0; c < theirs["loglikelihoods"].size(); ++c)
      EXPECT_NEAR(ours["loglikelihoods"][c].get<double>(), theirs["loglikelihoods"][c].get<double>(), 2e-3)
          << theirs["query"] << " " << theirs["choices"][c];
  }
}

TEST_F(Eval, TextsAreCutAsTheHarnessCutsThem) {
  if (!HAWSER_HAS_TEXT) GTEST_SKIP() << "this build has no text module";
  const json expected = json::parse(read_text(kCase + "/results.json"))["text"];
  const json got = measured(kCase + " --data " + kCase + "/text.txt");
  EXPECT_EQ(got["sequence"], 96);
  EXPECT_NEAR(got["bits_per_byte"].get<double>(), expected["bits_per_byte"].get<double>(), 1e-5);
  EXPECT_NEAR(got["byte_perplexity"].get<double>() / expected["byte_perplexity"].get<double>(), 1, 1e-5);
  EXPECT_NEAR(got["word_perplexity"].get<double>() / expected["word_perplexity"].get<double>(), 1, 1e-3);
}

/// The same question in different forms gets the same scores. The model reads bytes, so there is no prefix
/// token.
TEST_F(Eval, EachFormOfAQuestionIsKnownByItsKeys) {
  succeed("train config.json --data text.txt --set /train/steps=2 --out run");
  const auto scores = [&](const char* line) {
    write_text(path("q.jsonl"), std::string(line) + "\n\n");
    return measured("run --choices q.jsonl")["rows"][0]["loglikelihoods"];
  };
  const json plain =
      scores(R"({"query": "Question: Why?\nAnswer:", "choices": ["So", "Not so"], "gold": 1})");
  EXPECT_EQ(plain.size(), 2u);
  EXPECT_EQ(scores(R"({"goal": "Why?", "sol1": "So", "sol2": "Not so", "label": 0})"), plain);
  EXPECT_EQ(
      scores(
          R"({"question": "Why?", "choices": {"text": ["So", "Not so"], "label": ["A", "B"]}, "answerKey": "B"})"),
      plain);
  const json swag = scores(
      R"({"activity_label": "Tea", "ctx_a": "A cup. [x]", "ctx_b": "sHE", "endings": ["drinks [title] it", "b"], "label": "1"})");
  EXPECT_EQ(swag, scores(R"({"query": "Tea: A cup. She", "choices": ["drinks. it", "b"], "gold": 1})"));
  // Blanks at the end of a query belong to the choice.
  EXPECT_NE(scores(R"({"query": "So ", "choices": ["a", "b"], "gold": 1})"),
            scores(R"({"query": "So", "choices": ["a", "b"], "gold": 1})"));
  const json empty = scores(R"({"query": "", "choices": ["a", "bc"], "gold": 1})");
  EXPECT_LT(empty[1].get<double>(), empty[0].get<double>());
}

TEST_F(Eval, WhatIsNoQuestionIsRefusedByLine) {
  succeed("train config.json --data text.txt --set /train/steps=2 --out run");
  const std::string good = "{\"query\": \"a\", \"choices\": [\"b\", \"c\"], \"gold\": 1}\n";
  const auto says = [&](const std::string& line, const std::vector<std::string>& words) {
    write_text(path("q.jsonl"), good + line + "\n");
    std::vector<std::string> all = words;
    all.push_back("q.jsonl:2");
    refused("eval run --choices q.jsonl", all);
  };
  says("{\"query\": \"a\"", {"column"});
  says("[1]", {"JSON object"});
  says("{\"text\": \"a\"}", {"query, choices, gold", "hellaswag", "ARC", "PIQA"});
  says("{\"query\": \"a\", \"choices\": [\"b\", \"c\"], \"gold\": 2}", {"number 2 of 2"});
  says("{\"query\": \"a\", \"choices\": [\"b\", \"c\"], \"gold\": \"\"}", {"gold is \"\""});
  says("{\"query\": \"a\", \"choices\": [\"b\", \"\"], \"gold\": 0}", {"empty"});
  says("{\"query\": \"a\", \"choices\": [\"b\"], \"gold\": 0}", {"two choices"});
  says("{\"query\": 1, \"choices\": [\"b\", \"c\"], \"gold\": 0}", {"query is no text"});
  says(
      "{\"question\": \"a\", \"choices\": {\"text\": [\"b\", \"c\"], \"label\": [\"A\", \"B\"]}, "
      "\"answerKey\": \"C\"}",
      {"\"C\" is none"});
  says("{\"query\": \"\xff\"}", {"UTF-8"});
  refused("eval run --choices missing.jsonl", {"missing.jsonl", "No such file"});
  write_text(path("q.jsonl"), "\n");
  refused("eval run --choices q.jsonl", {"no questions"});
  refused("eval run", {"--data", "--choices"});
  refused("eval run --data text.txt --choices q.jsonl", {"either"});
}

}  // namespace eval_test
}  // namespace hawser::cli_test
