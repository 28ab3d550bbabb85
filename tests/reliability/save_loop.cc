// save_loop: the process that kill_test kills. It trains a small model, saves after each step and reports the
// step on stdout, until it is killed. It resumes from the newest checkpoint of its folder, like any run.
//
//   save_loop FOLDER TOKENS (sync|async|train|offload)
//
// Each line is the number of a step whose checkpoint is durable. `sync` and `async` report each save once it
// is durable; `train` (checkpoints of the train loop, during training, with `best`) reports only the one with
// which it began. `offload` saves nothing: FOLDER has the files of /offload, and each line is a step.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace {

void say(int64_t step) {
  char line[32];
  const int length = std::snprintf(line, sizeof line, "%lld\n", static_cast<long long>(step));
  if (::write(STDOUT_FILENO, line, static_cast<size_t>(length)) != length) ::_exit(3);
}

config::ConfigTree config_for(const std::string& folder, const std::string& tokens, const std::string& mode) {
  config::ConfigTree config = testing::small_config(tokens);
  if (mode == "offload")
    config.set(
        "/offload",
        R"({"optimizer": "disk", "parameters": "disk", "activations": "disk", "folder": ")" + folder + "\"}");
  if (mode != "train") return config;
  config.set("/data/validation_fraction", "0.1");
  config.set("/train", R"({"steps": 1000000, "eval_every": 2, "eval_batches": 1})");
  config.set("/checkpoint", R"({"path": ")" + folder + R"(", "every": 1, "keep_last": 2, "async": true})");
  return config;
}

void save_for_ever(train::Trainer* trainer, const std::string& folder, bool async) {
  while (true) {
    const int64_t step = trainer->train_step().step;
    const std::string path = folder + "/step-" + std::to_string(step);
    if (async)
      trainer->saves().save_async(path)->wait(-1);
    else
      trainer->saves().save(path);
    say(step);
    checkpoint::retain(folder, 2);
  }
}

int run(const std::string& folder, const std::string& tokens, const std::string& mode) {
  std::atomic<bool> cancel{false};
  const auto trainer = train::Trainer::create(config_for(folder, tokens, mode), false, &cancel);
  while (mode == "offload") say(trainer->train_step().step);
  const std::string newest = checkpoint::newest_valid(folder, nullptr);
  if (!newest.empty()) {
    trainer->loads().load(newest, false);
    say(checkpoint::Reader::open(newest)->description().step);
  }
  if (mode == "train")
    trainer->loop().run(0, nullptr);
  else
    save_for_ever(trainer.get(), folder, mode == "async");
  return 0;
}

}  // namespace
}  // namespace hawser

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    return hawser::run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "save_loop: %s\n", error.what());
    return 1;
  }
}
