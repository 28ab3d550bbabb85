// Tests `hawser prepare`, and `hawser train MODEL --data chat.jsonl`: a first run, a second run, and a
// resumed run.
#include <cmath>
#include <filesystem>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace prepare_command_test {

class PrepareCommand : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (!HAWSER_HAS_TEXT) GTEST_SKIP() << "the text module is not built";
    write_text(path("letters.txt"), std::string(4000, 'a') + std::string(4000, 'b'));
    succeed(
        "train llama-3.2-1b --data letters.txt --out base --set /train/steps=1 --set "
        "/schedule/warmup_steps=0 "
        "--set /model/vocab_size=704 --set /data/vocabulary=characters --set /batch/sequence=32 "
        "--set /model/context=64 --set /model/layers=1 --set /model/width=32 --set /model/heads=2 "
        "--set /model/kv_heads=1 --set /model/head_dim=16 --set /model/mlp_width=32 "
        "--set /batch/micro_batch=2 --set /batch/grad_accum_steps=1");
    succeed("convert base model");
    std::filesystem::copy(HAWSER_TOKENIZER, path("model/tokenizer.json"),
                          std::filesystem::copy_options::overwrite_existing);
    write_text(path("model/tokenizer_config.json"), R"({"bos_token": "<s>", "eos_token": "</s>"})");
    std::string chats;
    for (int i = 0; i < 60; ++i)
      chats += R"({"messages": [{"role": "user", "content": "Say )" + std::to_string(i) +
               R"("}, {"role": "assistant", "content": "Well, )" + std::to_string(i) + "\"}]}\n";
    write_text(path("chat.jsonl"), chats);
  }
};

TEST_F(PrepareCommand, ReportsAndShowsWhatIsLearned) {
  const std::string out =
      succeed("prepare model --data chat.jsonl -o rows --sequence 32 --template plain --show 1").out;
  EXPECT_NE(out.find("60 rows (60 chat)"), std::string::npos) << out;
  EXPECT_NE(out.find("</s>]]"), std::string::npos) << "the end of an answer is learned:\n" << out;
  EXPECT_EQ(out.find("[[<s>"), std::string::npos) << out;
  EXPECT_NE(succeed("prepare rows").out.find("--- row 0 of"), std::string::npos);
  EXPECT_NE(succeed("prepare model --data chat.jsonl -o rows --sequence 32 --template plain")
                .out.find("there already"),
            std::string::npos);
}

constexpr const char* kSmall =
    " --set /schedule/warmup_steps=0 --set /batch/sequence=64 --set /batch/micro_batch=2 ";

TEST_F(PrepareCommand, TrainPreparesIntoTheRunAndResumesWithoutTheFile) {
  const std::string train =
      std::string("train model --data chat.jsonl --template plain --out run --set /train/steps=2") + kSmall;
  EXPECT_NE(succeed(train).out.find("prepared: "), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path("run/data/prepared.json")));
  std::filesystem::remove(path("chat.jsonl"));
  EXPECT_NE(succeed("train --resume run --set /train/steps=4").out.find("step 4/4"), std::string::npos);
}

TEST_F(PrepareCommand, TrainTakesTheChoicesOfPrepare) {
  const std::string train = std::string("train model --template plain --set /train/steps=1") + kSmall;
  const std::string all = read_text(path("chat.jsonl"));
  write_text(path("chat.jsonl"),
             all + R"({"prompt": "Count: ", "completion": ")" + std::string(300, '7') + "\"}\n");
  const auto prepared = [&](const std::string& words, const std::string& run) {
    succeed(train + "--data chat.jsonl --out " + run + words);
    return nlohmann::json::parse(read_text(path(run + "/data/prepared.json"))).at("report");
  };
  const auto usual = prepared("", "usual"), chosen = prepared(" --no-packing --long drop", "chosen");
  EXPECT_TRUE(usual.at("packed"));
  EXPECT_EQ(usual.at("cut").at("rows"), 1);
  EXPECT_FALSE(chosen.at("packed"));
  EXPECT_EQ(chosen.at("prepared_rows"), 60);
  EXPECT_EQ(chosen.at("dropped").at("longer_than_sequence"), 1);

  refused(train + "--data chat.jsonl --out other --long wrap", {"--long", "wrap", "cut", "drop"});
  refused("train model --data letters.txt --no-packing --long cut",
          {"--long, --no-packing", "nothing is prepared", "hawser prepare"});
  refused("train model --data usual/data --template plain", {"--template", "nothing is prepared"});
  refused("train --resume usual --no-packing", {"--no-packing", "when it starts"});
  refused("train --resume usual --data chat.jsonl", {"its own rows, in usual/data", "leave --data out"});
}

/// The loss of rows is the loss of the folder into which they are prepared, and eval removes its temporary
/// folder.
TEST_F(PrepareCommand, EvalMeasuresRowsAsTrainingReadsThem) {
  succeed("prepare model --data chat.jsonl -o rows --sequence 64 --template plain");
  fs::create_directory(path("temporary"));
  const auto measured = [&](const std::string& data) {
    ::setenv("TMPDIR", path("temporary").c_str(), 1);
    const std::string out = succeed("eval model --sequence 64 --json --data " + data).out;
    ::unsetenv("TMPDIR");
    return nlohmann::json::parse(out);
  };
  const auto rows = measured("rows"), file = measured("chat.jsonl --template plain");
  EXPECT_EQ(file.at("loss"), rows.at("loss"));
  EXPECT_EQ(file.at("tokens"), rows.at("tokens"));
  EXPECT_TRUE(fs::is_empty(path("temporary")));
  refused("eval model --data letters.txt --template plain", {"--template", "nothing is prepared"});
  write_text(path("chat.jsonl"), R"({"prompt": "P", "chosen": "a", "rejected": "b"})");
  refused("eval model --data chat.jsonl --template plain", {"/objective/kind", "pairs"});
}

/// The model has a context of 64, which is shorter than the usual rows.
TEST_F(PrepareCommand, EvalCutsRowsToTheContext) {
  const auto got = nlohmann::json::parse(succeed("eval model --json --data chat.jsonl --template plain").out);
  EXPECT_EQ(got.at("sequence"), 64);
  EXPECT_GT(got.at("tokens"), 60);
}

TEST_F(PrepareCommand, FieldsThatTheTemplateDoesNotPrintAreRefusedOrDroppedAndSaid) {
  write_text(path("call.jsonl"), R"({"messages": [{"role": "user", "content": "6 x 7?"}, {"role": "assistant",
"content": "42", "tool_calls": [{"function": {"name": "multiply"}}]}]})");
  std::string one_line = read_text(path("call.jsonl"));
  std::erase(one_line, '\n');
  write_text(path("call.jsonl"), one_line);
  const std::string prepare = "prepare model --data call.jsonl -o rows --sequence 32 --template plain";
  refused(prepare, {"call.jsonl:1", "messages/1/tool_calls", "--unprinted drop"});
  const std::string dropped = "were dropped: 1 tool_calls", drop = " --unprinted drop";
  EXPECT_NE(succeed(prepare + drop).out.find(dropped), std::string::npos);

  const std::string eval = "eval model --data call.jsonl --template plain";
  refused(eval, {"call.jsonl:1", "messages/1/tool_calls", "--unprinted drop"});
  EXPECT_NE(succeed(eval + drop).out.find(dropped), std::string::npos);
  const auto notes = nlohmann::json::parse(succeed(eval + drop + " --json").out).at("notes");
  EXPECT_NE(notes.dump().find(dropped), std::string::npos) << notes;
  refused("eval model --data rows" + drop, {"--unprinted", "nothing is prepared"});
}

/// Without eos_token, config.json names the end. If config.json names none, one note reports it.
TEST_F(PrepareCommand, AnEndThatNothingNamesIsSaid) {
  fs::remove(path("model/tokenizer_config.json"));
  auto config = nlohmann::json::parse(read_text(path("model/config.json")));
  config["eos_token_id"] = 2;
  write_text(path("model/config.json"), config.dump());
  const std::string prepare = "prepare model --data chat.jsonl --sequence 32 --template plain --show 1 -o ";
  const std::string with = succeed(prepare + "with").out;
  EXPECT_NE(with.find("</s>]]"), std::string::npos) << with;
  EXPECT_EQ(with.find("note"), std::string::npos) << with;
  config["eos_token_id"] = nullptr;
  write_text(path("model/config.json"), config.dump());
  if (fs::exists(path("model/generation_config.json"))) fs::remove(path("model/generation_config.json"));
  const std::string without = succeed(prepare + "without").out;
  EXPECT_NE(without.find("rows that end without a token that ends them: 60"), std::string::npos) << without;
}

TEST_F(PrepareCommand, ErrorsLeadToTheFix) {
  refused(
      "train model --data chat.jsonl --template plain --out run --set "
      "'/data/validation_sources=[{\"path\":\"chat.jsonl\"}]'",
      {"chat.jsonl", "is a file", "hawser prepare"});
  write_text(path("one.jsonl"), R"({"text": "One row."})");
  refused(
      "train model --data one.jsonl --out other --set /batch/sequence=32 --set /data/validation_fraction=0.1",
      {"validation_fraction to 0"});
  fs::rename(path("model/model.safetensors"), path("model/pytorch_model.bin"));
  refused("generate model --prompt x", {"pytorch_model.bin", "safetensors"});
  refused("train meta-llama/Llama-3.2-1B --data chat.jsonl --out run",
          {"hf download meta-llama/Llama-3.2-1B"});
  refused("generate meta-llama/Llama-3.2-1B --prompt x", {"hf download meta-llama/Llama-3.2-1B"});
}

class PairsCommand : public PrepareCommand {
 protected:
  void SetUp() override {
    PrepareCommand::SetUp();
    std::string rows;
    for (int i = 0; i < 40; ++i) {
      const std::string n = std::to_string(i);
      rows += R"({"prompt": [{"role": "user", "content": "Say )" + n +
              R"("}], "chosen": [{"role": "assistant", "content": "Well, )" + n +
              R"("}], "rejected": [{"role": "assistant", "content": "No!"}]})" + "\n";
    }
    write_text(path("pairs.jsonl"), rows);
  }
  std::string train(const std::string& words, const std::string& run) const {
    return "train model --data pairs.jsonl --template plain --set /train/steps=4 --set /checkpoint/every=2 " +
           words + kSmall + "--out " + run;
  }
};

TEST_F(PairsCommand, DpoOnAnAdapterGoesOnAndMerges) {
  const std::string words =
      "--dpo --lora --set /adapter/rank=2 --set /optimizer/learning_rate=0.01 --set /train/eval_every=4";
  const std::string out = succeed(train(words, "undisturbed")).out;
  for (const char* said :
       {"from 40 pairs", "reference: 80 log-probabilities, computed in", "accuracy ", "margin ",
        "trained: ", "adapter: LoRA of rank 2, alpha 32, on all linears of the blocks",
        "objective: dpo, beta 0.1; reference: the model at the start of training"})
    EXPECT_NE(out.find(said), std::string::npos) << said << "\n" << out;
  const std::string report = read_text(path("undisturbed/report.html"));
  for (const char* said : {"<td>adapter</td>", "<td>objective</td>", "<h2>Reward margin<"})
    EXPECT_NE(report.find(said), std::string::npos) << said;
  const auto rows = metric_rows(path("undisturbed"));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_TRUE(rows.back().at("preferences").contains("margin"));
  EXPECT_TRUE(rows.back().at("validation_preferences").contains("accuracy"));
  EXPECT_GT(rows.back().at("preferences").at("margin"), 0);
  EXPECT_TRUE(fs::exists(path("undisturbed/checkpoints/references.safetensors")));

  const auto measured =
      nlohmann::json::parse(succeed("eval undisturbed --data pairs.jsonl --template plain --json").out);
  EXPECT_EQ(measured.at("objective"), "dpo");
  EXPECT_LT(measured.at("loss"), std::log(2.0));
  EXPECT_GT(measured.at("margin"), 0);
  EXPECT_GT(measured.at("accuracy"), 0.5);
  const std::string said = succeed("eval undisturbed --data pairs.jsonl --template plain").out;
  for (const char* part : {"dpo loss ", "reward accuracy ", "reward margin ", "reference: 0 of 40 pairs"})
    EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;

  succeed(train(words, "run"));
  for (const char* last : {"run/checkpoints/step-4", "run/checkpoints/best"}) fs::remove_all(path(last));
  fs::remove(path("pairs.jsonl"));
  EXPECT_NE(succeed("train --resume run").out.find("read from the run"), std::string::npos);
  EXPECT_EQ(tensor_files(path("run/checkpoints/step-4")),
            tensor_files(path("undisturbed/checkpoints/step-4")));
  succeed("merge run merged");
  EXPECT_TRUE(fs::exists(path("merged/model.safetensors")));
  refused("train --resume run --dpo", {"--dpo", "set the method of a new run"});
}

TEST_F(PairsCommand, OtherObjectivesAndReferences) {
  EXPECT_EQ(succeed(train("--objective simpo", "simpo")).out.find("reference:"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("simpo/checkpoints/references.safetensors")));
  EXPECT_NE(succeed(train("--objective ipo --set /objective/reference=simpo/checkpoints/step-4", "ipo"))
                .out.find("reference: 80"),
            std::string::npos);
}

/// A reward model starts from a language model, the run is resumed, the model is exported for Transformers
/// and PEFT, and an export is trained further.
TEST_F(PairsCommand, RewardModels) {
  const std::string words =
      "--objective reward --lora --set /adapter/rank=2 --set /optimizer/learning_rate=0.01 ";
  const std::string out = succeed(train(words, "run")).out;
  for (const char* said : {"head: a score, new", "accuracy ", "ForSequenceClassification"})
    EXPECT_NE(out.find(said), std::string::npos) << said << "\n" << out;
  EXPECT_EQ(out.find("reference:"), std::string::npos);
  const auto whole = tensor_files(path("run/checkpoints/step-4"));
  fs::remove_all(path("run/checkpoints/step-4"));
  succeed("train --resume run");
  EXPECT_EQ(tensor_files(path("run/checkpoints/step-4")), whole);
  refused("generate run --prompt a", {"has a score head", "hws_engine_forward"});
  const auto measured =
      nlohmann::json::parse(succeed("eval run --data pairs.jsonl --template plain --json").out);
  EXPECT_EQ(measured.at("objective"), "reward");
  EXPECT_GT(measured.at("accuracy"), 0.9);
  EXPECT_GT(measured.at("margin"), 0);
  succeed("merge run merged");
  succeed("convert run peft --adapter");
  EXPECT_NE(read_text(path("peft/adapter_config.json")).find("\"SEQ_CLS\""), std::string::npos);
  EXPECT_NE(read_text(path("merged/config.json")).find("ForSequenceClassification"), std::string::npos);
  fs::rename(path("model"), path("language")), fs::rename(path("merged"), path("model"));
  EXPECT_EQ(succeed(train("--objective reward", "again")).out.find("new"), std::string::npos);
  refused(train("--dpo", "out"), {"/objective/kind", "\"score\"", "reward"});
}
TEST_F(PairsCommand, PairsAndObjectivesMustMeet) {
  refused(train("", "out"), {"pairs.jsonl:1", "is a pair", "--dpo"});
  refused("train model --data chat.jsonl --template plain --dpo --out out" + std::string(kSmall),
          {"chat.jsonl:1", "not a pair", "\"chosen\""});
  refused(train("--dpo --objective ipo", "out"), {"--objective", "--dpo"});
  refused(train("--objective ppo", "out"), {"--objective", "ppo", "simpo"});
  write_text(path("pairs.jsonl"), R"({"prompt": "P", "chosen": "a", "rejected": "a"})");
  refused(train("--dpo", "out"), {"pairs.jsonl:1", "chosen equals rejected"});
  EXPECT_FALSE(fs::exists(path("out")));
}

/// Samples with messages go through the chat template, end at the model's end token, and work with an
/// adapter.
TEST_F(PrepareCommand, SamplesOfConversationsAreAnswered) {
  write_text(path("own.jinja"),
             "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}"
             "{% endif %}{{ m.role + ': ' + m.content }}{% if m.role == 'assistant' %}</s>{% endif %}"
             "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}");
  const auto samples = [](const std::string& messages) {
    return " --set '/telemetry/samples=[{\"messages\": [" + messages + "]}]' ";
  };
  const std::string say = R"({"role": "user", "content": "Say 3"})";
  const std::string train = std::string("train model --data chat.jsonl --template own.jinja --lora --set ") +
                            "/train/steps=60 --set /train/eval_every=30 --set /data/validation_fraction=0.1 "
                            "--set /optimizer/learning_rate=0.02 " +
                            kSmall + "--out ";
  succeed(train + "run" + samples(say));
  const auto lines = lines_of(read_text(path("run/samples.jsonl")));
  ASSERT_EQ(lines.size(), 2u);
  const auto last = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(last.at("step"), 60);
  EXPECT_EQ(last.at("prompt").at("messages").at(0).at("content"), "Say 3");
  const std::string chat = succeed("chat run 'Say 3' --temperature 0 --max-tokens 40").out;
  const std::string answer = last.at("answer").get<std::string>();
  EXPECT_EQ(chat.substr(0, 10), (answer + "\n").substr(0, 10)) << "as hawser chat";
  EXPECT_NE(read_text(path("run/report.html")).find("user: Say 3"), std::string::npos);

  refused(train + "other" + samples(R"({"role": "system", "content": "x"})"),
          {"/telemetry/samples/0", "no system here"});
  refused(train + "other" + samples(R"({"role": "wizard", "content": "x"})"),
          {"/telemetry/samples/0", "known roles: system"});
  EXPECT_FALSE(fs::exists(path("other/config.json")));
}

/// A run's rows are in its folder. Another run may later use the folder's old path.
TEST_F(PrepareCommand, AMovedRunGoesOnWithItsOwnRows) {
  const auto words = [](const std::string& file, const std::string& run) {
    return "train model --template plain --set /train/steps=4 --set /checkpoint/every=2" +
           std::string(kSmall) + "--data " + file + " --out " + run;
  };
  /// Moves a run and removes its last checkpoint, as if it had ended after two steps.
  const auto move = [&](const std::string& run, const std::string& to) {
    fs::remove_all(path(run + "/checkpoints/step-4"));
    fs::rename(path(run), path(to));
  };
  const auto tensors = [&](const std::string& run) {
    return tensor_files(path(run + "/checkpoints/step-4"));
  };
  succeed(words("chat.jsonl", "undisturbed"));
  succeed(words("chat.jsonl", "run"));
  move("run", "second");
  EXPECT_NE(succeed("train --resume second").out.find("step 4/4"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("run")));
  EXPECT_EQ(tensors("second"), tensors("undisturbed"));

  move("second", "third");
  succeed(words("chat.jsonl", "third --elastic"));  // the same arguments begin a run and continue it
  EXPECT_EQ(tensors("third"), tensors("undisturbed"));

  move("third", "fourth");
  std::string others;
  for (int i = 0; i < 60; ++i)
    others += "{\"prompt\": \"Other rows: \", \"completion\": \"none of these\"}\n";
  write_text(path("other.jsonl"), others);
  succeed(words("other.jsonl", "third"));
  succeed("train --resume fourth");
  EXPECT_EQ(tensors("fourth"), tensors("undisturbed"));
}

/// A tokenizer whose tokens begin with a space decodes the first token of a text without it.
TEST_F(PrepareCommand, SamplesKeepTheirFirstSpace) {
  std::string lines;
  for (int i = 0; i < 500; ++i) lines += " the the the the the the the the\n";
  write_text(path("lines.txt"), lines);
  const std::string out =
      succeed(
          "train model --data lines.txt --set /train/steps=100 --set /train/sample_every=100"
          " --set /optimizer/learning_rate=0.005" +
          std::string(kSmall))
          .out;
  EXPECT_NE(out.find("--- sample after step 100 ---\n the the"), std::string::npos) << out;
}

}  // namespace prepare_command_test
}  // namespace hawser::cli_test
