// Process load tests: what each process reads when processes load a checkpoint together, and which checkpoint
// they choose.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_config.h"
#include "tests/ranks/in_processes.h"

namespace hawser::testing {
namespace process_load_test {

/// Returns the bytes that this process has read from files so far; -1 if the system does not count them.
int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string word;
  int64_t bytes = -1;
  while (file >> word)
    if (word == "rchar:") file >> bytes;
  return bytes;
}

/// Every byte of the tensors is read once by some rank to verify it, and once by the rank that loads it.
TEST(ProcessLoad, ReadACheckpointOnceToVerifyIt) {
  if (bytes_read() < 0) GTEST_SKIP() << "the system does not count what a process reads";
  const ScratchFolder folder;
  config::ConfigTree config = small_config(write_tokens(folder, 4000));
  config.set("/model", R"({"vocab_size": 53, "context": 24, "layers": 4, "width": 128, "heads": 4})");
  config.set("/mesh/dp_shard", "4");
  config.set("/zero/stage", "3");
  const auto create = [&](std::shared_ptr<comm::Comm> comm, std::atomic<bool>* cancel) {
    return train::Trainer::create(config, false, cancel, std::move(comm));
  };
  const std::vector<std::string> saved = in_processes(4, [&](std::shared_ptr<comm::Comm> comm) {
    std::atomic<bool> cancel{false};
    const auto trainer = create(std::move(comm), &cancel);
    trainer->train_step();
    trainer->saves().save(folder.file("run/step-1"));
    return std::string("saved");
  });
  ASSERT_EQ(saved, std::vector<std::string>(4, "saved"));
  int64_t stored = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("run/step-1")))
    if (entry.path().extension() == ".safetensors") stored += static_cast<int64_t>(entry.file_size());
  const auto read_by = [&](std::shared_ptr<comm::Comm> comm) {
    std::atomic<bool> cancel{false};
    const auto trainer = create(std::move(comm), &cancel);
    const int64_t before = bytes_read();
    const auto loaded = nlohmann::json::parse(trainer->loads().load_latest(folder.file("run"), false));
    EXPECT_EQ(loaded.at("name"), "step-1");
    return bytes_read() - before;
  };
  int64_t most = 0, sum = 0;
  for (const std::string& text : in_processes(
           4, [&](std::shared_ptr<comm::Comm> comm) { return std::to_string(read_by(std::move(comm))); })) {
    most = std::max(most, std::stol(text));
    sum += std::stol(text);
  }
  const int64_t threads = read_by(comm::make_local(4));
  config.set("/mesh/dp_shard", "1");
  config.set("/zero/stage", "0");
  config.set("/batch/grad_accum_steps", "4");
  const int64_t alone = read_by(nullptr);
  std::printf(
      "of %lld stored bytes, read by 4 processes: %lld (at most %lld by one); by 4 threads %lld; alone "
      "%lld\n",
      static_cast<long long>(stored), static_cast<long long>(sum), static_cast<long long>(most),
      static_cast<long long>(threads), static_cast<long long>(alone));
  EXPECT_GT(stored, 1 << 20);
  for (const int64_t read : {sum, threads, alone}) EXPECT_LT(read, stored * 22 / 10);
  EXPECT_LT(most, stored * 6 / 10);  // a quarter to verify, a quarter to keep
}

/// If one process finds a checkpoint damaged, all processes skip it.
TEST(ProcessLoad, LoadTheNewestThatIsWhole) {
  const ScratchFolder folder;
  const Layout l = layout(1, 2, 3, "per_step");
  LayoutRun whole(Problem(), l);
  for (int step = 1; step <= 3; ++step) {
    whole.step();
    whole.trainer().saves().save(folder.file("run/step-" + std::to_string(step)));
  }
  const std::string shard = folder.file("run/step-3/tensors-rank-00001-of-00002-00001-of-00001.safetensors");
  {
    std::fstream file(shard, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
    ASSERT_TRUE(file.good());
  }
  LayoutRun reference(Problem(), l);
  reference.trainer().loads().load(folder.file("run/step-2"), false);
  reference.skip_to(2);
  const std::string next = summary_of({reference.step()});
  for (const std::string& text : in_processes(2, [&](std::shared_ptr<comm::Comm> comm) {
         LayoutRun run(Problem(), l, std::move(comm));
         std::string none;
         try {
           run.trainer().loads().load_latest(folder.file("nothing"), false);
         } catch (const Error& error) {
           none = code_name(error.code());
         }
         const std::string loaded = run.trainer().loads().load_latest(folder.file("run"), false);
         run.skip_to(2);
         return none + loaded + "\n" + summary_of({run.step()});
       })) {
    EXPECT_TRUE(text.starts_with(R"(HWS_NOT_FOUND{"name":"step-2","step":2,"damaged":[{"name":"step-3",)"))
        << text;
    EXPECT_NE(text.find("is damaged: its digest"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("\n" + next)) << text;
  }
}

}  // namespace process_load_test
}  // namespace hawser::testing
