// Process export tests: ranks that are processes export the same folder as ranks that are threads, and as one
// rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/comm/comm.h"
#include "engine/run/trainer.h"
#include "tests/harness/small_config.h"
#include "tests/ranks/in_processes.h"

namespace hawser::testing {
namespace process_export_test {

/// Rank 0 writes tensors, of which each rank has only a shard. If it cannot write, all ranks throw, and the
/// engine stays usable.
TEST(ProcessExport, ExportWhatThreadsExport) {
  const ScratchFolder folder;
  const std::string there = folder.file("exported"), expected = folder.file("expected");
  config::ConfigTree config = small_config(write_tokens(folder, 4000));
  config.set(
      "/model",
      R"({"vocab_size": 53, "context": 24, "layers": 1, "width": 40, "heads": 4, "mlp": "gelu_tanh"})");
  config.set("/mesh/dp_shard", "3");
  config.set("/zero/stage", "3");
  const auto use = [&](const std::string& to, std::shared_ptr<comm::Comm> comm) {
    std::atomic<bool> cancel{false};
    const auto trainer = train::Trainer::create(config, false, &cancel, std::move(comm));
    trainer->train_step();
    trainer->exports().model_to(to, "bf16");
    std::string text;
    try {
      trainer->exports().model_to(to, "bf16");
    } catch (const Error& error) {
      text = error.message();
    }
    return fmt::format("{}\n{}", text, trainer->train_step().loss);
  };
  const std::string threads = use(expected, comm::make_local(3));
  for (const std::string& text :
       in_processes(3, [&](std::shared_ptr<comm::Comm> comm) { return use(there, std::move(comm)); })) {
    EXPECT_TRUE(text.starts_with("rank 0: ") && text.find("exists") != std::string::npos) << text;
    EXPECT_EQ(text.substr(text.find('\n')), threads.substr(threads.find('\n')));
  }
  for (const std::string name : {"/config.json", "/model.safetensors"}) {
    EXPECT_FALSE(text_of_file(expected + name).empty());
    EXPECT_EQ(text_of_file(expected + name), text_of_file(there + name));
  }
}

/// Each expert's matrix is a separate tensor: a slice of what the ranks gather.
TEST(ProcessExport, ExportExpertsAsOneRankDoes) {
  const ScratchFolder folder;
  config::ConfigTree config = small_config(write_tokens(folder, 4000));
  config.set("/model",
             R"({"vocab_size": 53, "context": 24, "layers": 2, "width": 40, "heads": 4, "norm": "rms_norm",
                          "mlp": "swiglu", "position": "rotary", "moe": {"experts": 5, "width": 24}})");
  const auto use = [&](const std::string& to, std::shared_ptr<comm::Comm> comm) {
    std::atomic<bool> cancel{false};
    const auto trainer = train::Trainer::create(config, true, &cancel, std::move(comm));
    for (const char* ending : {"", ".gguf"}) trainer->exports().model_to(folder.file(to + ending), "");
    return std::string();
  };
  use("one", comm::make_local(1));
  config.set("/mesh/dp_shard", "2");
  config.set("/zero/stage", "3");
  use("threads", comm::make_local(2));
  for (const std::string& text :
       in_processes(2, [&](std::shared_ptr<comm::Comm> comm) { return use("processes", std::move(comm)); }))
    EXPECT_EQ(text, "");
  for (const char* name : {"/config.json", "/model.safetensors", ".gguf"})
    for (const char* others : {"threads", "processes"})
      EXPECT_EQ(text_of_file(folder.file("one") + name), text_of_file(folder.file(others) + name)) << others;
}

}  // namespace process_export_test
}  // namespace hawser::testing
