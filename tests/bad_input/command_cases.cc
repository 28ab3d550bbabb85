// Command cases: for wrong input, the command exits with status 2 and one message before anything is written.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace command_cases {

constexpr int32_t kWrongInput = 2;

int32_t run_command(Site& site, const std::string& arguments) {
  const std::string command =
      "cd '" + site.folder() + "' && " HAWSER_COMMAND " " + arguments + " > out 2> err < /dev/null";
  const int status = std::system(command.c_str());
  site.say(site.read("err"));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Makes a row in a folder with only a valid config.json and a text.
Case command(const std::string& arguments, std::vector<std::string> words,
             const std::function<void(Site&)>& prepare = nullptr) {
  words.push_back("hawser: error: ");
  return {"`hawser " + arguments + "`", kWrongInput, std::move(words), [=](Site& site) {
            site.write("config.json", sound_config().dump());
            site.write("text.txt", std::string(500, 'x'));
            if (prepare) prepare(site);
            return run_command(site, arguments);
          }};
}

void sound_model(Site& site) { site.checkpoint(); }

std::vector<Case> arguments() {
  return {
      command("", {"subcommand"}),
      command("trane", {"trane", "train"}),
      command("train config.json --lr 3", {"--lr", "did you mean --set /optimizer/learning_rate=3?"}),
      command("train config.json --data text.txt --steps 100",
              {"--steps", "did you mean --set /train/steps=100?"}),
      command("train config.json --data text.txt --epochs 3", {"did you mean --set /train/epochs=3?"}),
      command("train config.json --batch=8", {"did you mean --set /batch/micro_batch=8?"}),
      command("launch -n 2 train config.json --seed 7", {"launch train", "did you mean --set /seed=7?"}),
      command("train", {"train needs a CONFIG"}),
      command("train config.json --threads 0", {"--threads", "0"}),
      command("train config.json --threads many", {"--threads", "many"}),
      command("train config.json --set model.layers=2", {"model.layers=2", "/json/pointer=value", "such as"}),
      command("train config.json --set /model/layers", {"/model/layers", "="}),
      command("train config.json --set /model/layrs=2", {"/model/layrs", "did you mean \"layers\"?"}),
      command("train config.json --out new --resume old", {"--resume", "--out"}),
      command("train quickstart --data text.txt --rank 1", {"--comm", "--world"}),
      command("train quickstart --data text.txt --comm 127.0.0.1:1 --rank 3 --world 2", {"rank", "3", "2"}),
      command("train config.json --data text.txt --out \"\"", {"--out", "is empty"}),
      command("train config.json --data \"\"", {"--data", "is empty"}),
      command("train config.json --comm 127.0.0.1:1 --rank 0 --world 1 --secret-file \"\"",
              {"--secret-file", "is empty"}),
      command("train --resume \"\"", {"--resume", "is empty"}),
      command("inspect \"\"", {"checkpoint", "is empty"}),
      command("launch -n 2 train config.json --out \"\"", {"launch train", "--out", "is empty"}),
      command("launch train config.json", {"--processes"}),
      command("launch -n 0 train config.json", {"--processes", "0", "4096"}),
      command("launch -n 2", {"launch needs a command", "hawser launch -n 4 train"}),
      command("launch -n 2 eval config.json", {"launch needs a command", "train"}),
      command("eval checkpoint", {"--data"}),
      command("generate checkpoint --top-p 2", {"--top-p", "2"}),
      command("generate checkpoint --temperature -1", {"--temperature", "-1"}),
      command("generate checkpoint --prompt a --tokens 1", {"--tokens", "--prompt"}),
      command("prove config.json --steps 0", {"--steps", "0"}),
      command("device --seconds -1", {"--seconds", "-1"}),
      command("convert a b --dtype f64", {"--dtype", "f64"}),
  };
}

std::vector<Case> files() {
  return {
      command("train none.json", {"cannot open none.json"}),
      command("train quickstat", {"quickstat", "did you mean", "quickstart"}),
      command("train bad.json", {"bad.json", "line 1, column"},
              [](Site& site) { site.write("bad.json", "{"); }),
      command("train typo.json", {"typo.json", "/sede", "did you mean \"seed\"?"},
              [](Site& site) { site.write("typo.json", "{\"sede\": 1}"); }),
      command("train config.json", {"data"}),
      command("train config.json --data none.txt", {"none.txt"}),
      command("train quickstart --data short.txt", {"short.txt", "found 4 tokens of 5 in the training part"},
              [](Site& site) { site.write("short.txt", "short"); }),
      command("train config.json --data text.txt --out text.txt",
              {"text.txt is a file", "name a new folder"}),
      command("train --resume none", {"none"}),
      command("train --resume empty", {"empty", "config.json"},
              [](Site& site) { std::filesystem::create_directory(site.path("empty")); }),
      command("train text.txt", {"text.txt is not a config", "hawser train quickstart --data text.txt"}),
      command("train config.jsn", {"config.jsn", "did you mean config.json?"}),
      command("train run1", {"run1 is the folder of a run", "hawser train --resume run1"},
              [](Site& site) {
                site.write("run1/config.json", "{}");
                site.write("run1/metrics.jsonl", "");
              }),
      command("train model --data text.txt", {"/data/format", "tokenizer.model", "data.as_is"},
              [](Site& site) {
                site.hugging_face();
                site.write("model/tokenizer.model", "{}");
              }),
      command("explain layers", {"hawser explain /model/layers"}),
      command("verify model", {"no digests", "hawser convert model"},
              [](Site& site) { site.hugging_face(); }),
      command("plan none", {"none"}),
      command("explain config.json /model/layrs", {"/model/layrs", "did you mean"}),
      command("init gpt3", {"gpt3", "gpt2"}),
      command("init quickstart -o config.json", {"config.json", "exists"}),
      command("inspect .", {"checkpoint", "manifest.json"}),
      command("verify none", {"none"}),
      command("verify checkpoint", {"manifest.json", "not valid JSON"},
              [](Site& site) {
                sound_model(site);
                site.write("checkpoint/manifest.json", "{");
              }),
      command("generate checkpoint --prompt hello", {"--tokens"}, sound_model),
      command("generate checkpoint --tokens 1,two", {"--tokens", "two"}, sound_model),
      command("generate checkpoint --tokens 1,61", {"61", "vocabulary of 61"}, sound_model),
      command("eval checkpoint --data none.bin", {"none.bin"}, sound_model),
      command("convert none out", {"none"}),
      command("convert checkpoint text.txt", {"text.txt", "exists"}, sound_model),
      command("prove config.json", {"/mesh has one rank", "/mesh/dp_shard"}),
  };
}

/// Writes the folders of two runs, "one" and "two", with the files that a comparison reads.
void two_runs(Site& site) {
  for (const std::string run : {"one/", "two/"}) {
    site.write(run + "config.json", "{}");
    site.write(run + "resolved.json", R"({"objective": {"kind": "cross_entropy"}})");
    site.write(run + "metrics.jsonl", "{\"step\":1,\"loss\":2.0}\n");
  }
}

std::vector<Case> comparisons() {
  return {
      command("compare one -o new.html", {"two or more runs", "one/report.html"}, two_runs),
      command("compare one none -o new.html", {"none", "no such folder"}, two_runs),
      command("compare one . -o new.html", {"compare .", "not the folder of a run", "metrics.jsonl"},
              two_runs),
      command("compare one ./one -o new.html", {"one and ./one are the same run"}, two_runs),
      command("compare one two -o text.txt", {"text.txt already exists"}, two_runs),
      command("compare one two", {"--output is required"}, two_runs),
      command("compare one two -o new.html", {"\"cross_entropy\"", "\"dpo\"", "/objective/kind"},
              [](Site& site) {
                two_runs(site);
                site.write("two/resolved.json", R"({"objective": {"kind": "dpo"}})");
              }),
      command("compare two one -o new.html", {"compare one", "metrics.jsonl has no complete row"},
              [](Site& site) {
                two_runs(site);
                site.write("one/metrics.jsonl", "{\"step\":1,");
              }),
      command("compare one two --output new.html", {"compare two", "resolved.json is not a JSON object"},
              [](Site& site) {
                two_runs(site);
                site.write("two/resolved.json", "[]");
              }),
  };
}

/// Writes a tokenizer, and rows of which the second is invalid.
void rows_and_tokenizer(Site& site) {
  std::filesystem::copy(HAWSER_TOKENIZERS "/llama3/tokenizer.json", site.path("tokenizer.json"));
  site.write("rows.jsonl", "{\"text\": \"x\"}\n{\"words\": \"x\"}\n");
}

std::vector<Case> texts() {
  const std::string prepare = "prepare tokenizer.json -o rows --data ";
  return {
      command("prepare", {"model is required"}),
      command("prepare checkpoint", {"--data FILE", "-o DIR"}, sound_model),
      command(prepare + "rows.jsonl", {"--sequence N is needed", "tokenizer alone"}, rows_and_tokenizer),
      command(prepare + "rows.jsonl --sequence 1", {"--sequence", "1"}, rows_and_tokenizer),
      command(prepare + "rows.jsonl --sequence 16 --long wrap", {"--long", "wrap", "cut", "drop"},
              rows_and_tokenizer),
      command(prepare + "rows.jsonl --sequence 16 --unprinted keep",
              {"--unprinted", "keep", "refuse", "drop"}, rows_and_tokenizer),
      command(prepare + "rows.jsonl --sequence 16 --template mine", {"mine", "plain, chatml"},
              rows_and_tokenizer),
      command(prepare + "rows.jsonl --sequence 16", {"rows.jsonl:2", "known sets of keys"},
              rows_and_tokenizer),
      command(prepare + "none.jsonl --sequence 16", {"none.jsonl"}, rows_and_tokenizer),
      command("prepare model -o rows --data text.txt --sequence 16", {"model has no tokenizer.json"},
              [](Site& site) { site.hugging_face(); }),
      command("train model --data rows.jsonl", {"--data rows.jsonl needs --out DIR"},
              [](Site& site) {
                site.hugging_face();
                rows_and_tokenizer(site);
              }),
      command("train quickstart --data text.txt --no-packing",
              {"--no-packing: nothing is prepared here", "hawser prepare"}),
      command("train --resume run --template plain", {"--template", "prepared when it starts"}),
      command("chat checkpoint hello", {"has no tokenizer", "tokenizer.json"}, sound_model),
      command("tokenizer encode text.txt text.txt", {"text.txt", "not JSON"}),
      command("tokenizer train text.txt --vocab-size 10 -o own.json", {"10", "256"}),
      command("tokenizer decode tokenizer.json text.txt", {"text.txt", "token ids such as 1,2,3"},
              rows_and_tokenizer),
  };
}

}  // namespace command_cases

Area command_area() {
  using namespace command_cases;
  Area area = {"The command",
               "`hawser` with wrong arguments or files, in a folder with a valid `config.json`, a `text.txt` "
               "and, where it is "
               "named, a valid `checkpoint` of 61 tokens. Wrong input ends with status 2.",
               arguments()};
  for (const auto& more : {files(), comparisons(), texts()})
    area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
