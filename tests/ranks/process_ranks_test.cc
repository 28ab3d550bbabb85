// Process rank tests: ranks that are processes connected over TCP compute, in every process, the bits of
// ranks that are threads of one process.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "tests/comm/worlds.h"
#include "tests/harness/file_faults.h"
#include "tests/harness/layout_cells.h"
#include "tests/harness/small_config.h"
#include "tests/ranks/in_processes.h"

namespace hawser::testing {
namespace process_ranks_test {

TEST(ProcessRanks, GiveTheBitsOfThreads) {
  for (const Layout& l : {layout(1, 2, 0, "per_step"), layout(1, 3, 1, "per_micro_batch"),
                          layout(1, 2, 3, "per_step"), layout(2, 2, 2, "per_micro_batch")}) {
    Problem p;
    p.precision = l.stage == 3 ? "bf16" : "fp32";
    const std::vector<std::string> texts = in_processes(
        static_cast<int32_t>(l.dp()),
        [&](std::shared_ptr<comm::Comm> comm) { return summary_of(run_layout(p, l, 3, std::move(comm))); });
    const std::string expected = summary_of(run_layout(p, l, 3));
    for (size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], expected) << l.name() << ", process " << r;
  }
}

/// A step sends the same payload as with threads, to the byte. Wire bytes are more, because of headers. The
/// engine's info reports the planned memory of the transport.
TEST(ProcessRanks, CountWhatTheirSocketsCarriedBesideThePayload) {
  const Layout l = layout(1, 3, 2, "per_step");
  const auto of_step = [&](std::shared_ptr<comm::Comm> comm) {
    LayoutRun run(Problem{}, l, std::move(comm));
    run.step();
    const auto metrics = nlohmann::json::parse(run.trainer().metrics().json());
    const auto info = nlohmann::json::parse(run.trainer().reports().info_json());
    nlohmann::json traffic = metrics.at("communication");
    return nlohmann::json{{"traffic", traffic},
                          {"payload", metrics.at("communication_bytes")},
                          {"wire", metrics.at("communication_wire_bytes")},
                          {"transport", info.at("memory").at("transport_bytes")}}
        .dump();
  };
  const auto threads = nlohmann::json::parse(of_step(nullptr));
  EXPECT_EQ(threads.at("wire"), 0) << "threads share memory";
  EXPECT_EQ(threads.at("transport"), 0);
  for (const std::string& text : in_processes(3, of_step)) {
    const auto process = nlohmann::json::parse(text);
    EXPECT_EQ(process.at("payload"), threads.at("payload"));
    EXPECT_EQ(process.at("transport"), comm::process_transport_bytes(3));
    int64_t wire = 0;
    for (const auto& group : process.at("traffic"))
      for (const auto& operation : group) wire += operation.at("wire_bytes").get<int64_t>();
    EXPECT_EQ(process.at("wire"), wire);
    EXPECT_GT(wire, process.at("payload").get<int64_t>());
  }
}

/// Shared memory and sockets give the same bits. The engine's info shows how a rank is connected.
TEST(ProcessRanks, ShareMemoryOrAreConnectedBySocketsWithTheSameBits) {
  const auto trained = [&](bool shares_memory) {
    nlohmann::json ranks;
    const auto texts = in_processes(
        3,
        [&](std::shared_ptr<comm::Comm> comm) {
          LayoutRun run(Problem{}, layout(1, 3, 3, "per_step"), std::move(comm));
          run.step();
          const auto info = nlohmann::json::parse(run.trainer().reports().info_json());
          const auto metrics = nlohmann::json::parse(run.trainer().metrics().json());
          return nlohmann::json{{"connections", info.at("connections")},
                                {"reason", info.contains("shared_memory_without")},
                                {"norm", metrics.at("grad_norm")}}
              .dump();
        },
        shares_memory);
    for (const std::string& text : texts) ranks.push_back(nlohmann::json::parse(text));
    return ranks;
  };
  const nlohmann::json shared = trained(true), sockets = trained(false);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_GE(shared[rank].at("connections").at("shared_memory"), 2);
    EXPECT_EQ(shared[rank].at("connections").at("sockets"), 0);
    EXPECT_EQ(sockets[rank].at("connections").at("shared_memory"), 0);
    EXPECT_EQ(sockets[rank].at("connections").at("sockets"),
              shared[rank].at("connections").at("shared_memory"));
    EXPECT_FALSE(shared[rank].at("reason") || sockets[rank].at("reason"));
    EXPECT_EQ(shared[rank].at("norm"), sockets[rank].at("norm"));
  }
}

/// Every day, the test samples other cells of the layout matrix.
TEST(ProcessRanks, GiveTheBitsOfThreadsInCellsOfTheMatrix) {
  const uint64_t seed = seed_of_today();
  std::vector<Cell> cells = all_cells(4);
  std::erase_if(cells, [](const Cell& cell) { return cell.layout.dp() == 1; });
  for (const Cell& cell : sample_of(std::move(cells), 5, seed)) {
    const std::vector<std::string> texts =
        in_processes(static_cast<int32_t>(cell.layout.dp()), [&](std::shared_ptr<comm::Comm> comm) {
          return summary_of(run_layout(cell.problem, cell.layout, 2, std::move(comm)));
        });
    const std::string expected = summary_of(run_layout(cell.problem, cell.layout, 2));
    for (size_t r = 0; r < texts.size(); ++r)
      EXPECT_EQ(texts[r], expected) << name_of(cell) << ", process " << r << ", seed " << seed;
  }
}

TEST(ProcessRanks, SaveOneCheckpointTogetherThatThreadsLoad) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("hawser-processes-" + std::to_string(::getpid()));
  const std::string path = (folder / "step-2").string();
  const Layout l = layout(1, 2, 3, "per_step");
  const std::vector<std::string> texts = in_processes(2, [&](std::shared_ptr<comm::Comm> comm) {
    LayoutRun run(Problem(), l, std::move(comm));
    run.step(), run.step();
    run.trainer().saves().save(path);
    return summary_of({run.step()});
  });
  LayoutRun loader(Problem(), layout(2, 1, 0, "per_step"));
  loader.trainer().loads().load(path, false);
  loader.skip_to(2);
  const std::string next = summary_of({loader.step()});
  EXPECT_EQ(texts[0], next);
  EXPECT_EQ(texts[1], next);
  std::filesystem::remove_all(folder);
}

/// Returns the content of each file below a folder, by name.
std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder)] = text_of_file(entry.path());
  return files;
}

/// The asynchronous save overlaps with two steps: the disk of one process blocks until they are taken.
TEST(ProcessRanks, SaveBesideTrainingWhatTheySaveAtOnce) {
  for (const Layout& l : {layout(1, 2, 3, "per_step"), layout(1, 3, 1, "per_micro_batch")}) {
    const ScratchFolder folder;
    const auto run_all = [&](std::shared_ptr<comm::Comm> comm, bool saves) {
      const bool slow = saves && comm->local_ranks().front() == 1;
      LayoutRun run(Problem(), l, std::move(comm));
      run.step();
      std::string text;
      if (saves) {
        run.trainer().saves().save(folder.file("at once"));
        auto held = slow ? std::make_unique<HeldDisk>() : nullptr;
        const auto operation = run.trainer().saves().save_async(folder.file("beside"));
        text = summary_of({run.step(), run.step()});
        if (operation->ended()) text += " it ended before its time";
        held.reset();
        EXPECT_TRUE(operation->wait(-1));
        if (operation->bytes_written() != operation->total_bytes()) text += " bytes are missing";
      } else {
        text = summary_of({run.step(), run.step()});
      }
      return text;
    };
    const std::string expected = run_all(comm::make_local(static_cast<int32_t>(l.dp())), false);
    for (const std::string& text :
         in_processes(static_cast<int32_t>(l.dp()),
                      [&](std::shared_ptr<comm::Comm> comm) { return run_all(std::move(comm), true); }))
      EXPECT_EQ(text, expected) << l.name();
    EXPECT_GT(files_of(folder.file("beside")).size(), 2u);
    EXPECT_EQ(files_of(folder.file("beside")), files_of(folder.file("at once"))) << l.name();
  }
}

/// In one process the disk is full, or the save is cancelled. All processes throw the error, no file is left,
/// and the same engines can save again.
TEST(ProcessRanks, FailTogetherToSaveBesideTraining) {
  const Layout l = layout(1, 2, 3, "per_step");
  for (const int32_t odd_one : {0, 1}) {
    const ScratchFolder folder;
    const auto error_of = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        return fmt::format("{} {}\n", code_name(error.code()), error.message().substr(0, 7));
      }
      return std::string("no error\n");
    };
    const std::vector<std::string> texts = in_processes(2, [&](std::shared_ptr<comm::Comm> comm) {
      const bool odd = comm->local_ranks().front() == odd_one;
      LayoutRun run(Problem(), l, std::move(comm));
      train::Saves& saves = run.trainer().saves();
      std::string text;
      {
        const auto full = odd ? std::make_unique<FaultyDisk>(Fault::kDiskFull) : nullptr;
        const auto operation = saves.save_async(folder.file("full"));
        text += error_of([&] { operation->wait(-1); });
      }
      {
        const auto held = odd ? std::make_unique<HeldDisk>() : nullptr;
        const auto operation = saves.save_async(folder.file("cancelled"));
        run.step();
        if (odd) operation->cancel();
      }
      text += error_of([&] { saves.saver().last()->wait(-1); });
      saves.save_async(folder.file("whole"))->wait(-1);
      return text + error_of([&] { saves.save_async(folder.file("whole")); });
    });
    for (const std::string& text : texts)
      EXPECT_EQ(text, fmt::format("HWS_IO rank {0}:\nHWS_CANCELLED rank {0}:\nHWS_ALREADY_EXISTS rank 0:\n",
                                  odd_one));
    std::vector<std::string> left;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(folder.file("whole")).parent_path()))
      left.push_back(entry.path().filename());
    EXPECT_EQ(left, std::vector<std::string>{"whole"}) << odd_one;
  }
}

/// A run with asynchronous checkpoints writes the same files as a run of threads with synchronous ones.
TEST(ProcessRanks, KeepTheCheckpointsOfARunBesideTraining) {
  const ScratchFolder folder;
  const std::string tokens = write_tokens(folder, 4000);
  const auto run = [&](const std::string& to, bool async, std::shared_ptr<comm::Comm> comm) {
    config::ConfigTree config = small_config(tokens);
    config.set("/mesh/dp_shard", "2");
    config.set("/zero/stage", "3");
    config.set("/checkpoint",
               fmt::format(R"({{"path": "{}", "every": 3, "keep_last": 2, "async": {}}})", to, async));
    std::atomic<bool> cancel{false};
    const auto trainer = train::Trainer::create(config, false, &cancel, std::move(comm));
    double loss = 0;
    trainer->loop().run(8, [&](const train::TrainRecord& record) {
      loss = record.result.loss;
      return true;
    });
    return fmt::format("{} {}", loss, trainer->saves().saver().failures().count);
  };
  const std::string expected = run(folder.file("threads"), false, comm::make_local(2));
  for (const std::string& text : in_processes(2, [&](std::shared_ptr<comm::Comm> comm) {
         return run(folder.file("processes"), true, std::move(comm));
       }))
    EXPECT_EQ(text, expected);
  const auto weights_of = [&](const std::string& of) {
    std::map<std::string, std::string> files = files_of(folder.file(of));
    std::erase_if(files, [](const auto& file) { return !file.first.ends_with(".safetensors"); });
    return files;
  };
  EXPECT_GE(weights_of("threads").size(), 2u);
  EXPECT_EQ(weights_of("processes"), weights_of("threads"));
}

/// The host program's transport has no lane for a save. The save is refused at once, and the engine
/// continues.
TEST(ProcessRanks, OfATransportWithoutLanesAreToldThatTheyCannotSaveBesideTraining) {
  const Layout l = layout(1, 2, 1, "per_step");
  LayoutRun alone(Problem(), l);
  const std::string expected = "HWS_UNIMPLEMENTED " + summary_of({alone.step()});
  const std::vector<std::shared_ptr<comm::Comm>> world = memory_world(2);
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      LayoutRun run(Problem(), l, world[r]);
      try {
        run.trainer().saves().save_async("never");
      } catch (const Error& error) {
        texts[r] = std::string(code_name(error.code())) + " ";
        EXPECT_NE(error.message().find("a separate lane"), std::string::npos) << error.message();
      }
      texts[r] += summary_of({run.step()});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, expected);
}

/// One process is given another checkpoint than the other, or a folder without one.
TEST(ProcessRanks, LoadOneCheckpointOrNone) {
  const ScratchFolder folder;
  const Layout l = layout(1, 2, 3, "per_step");
  {
    LayoutRun run(Problem(), l);
    for (int step = 1; step <= 2; ++step)
      run.step(), run.trainer().saves().save(folder.file("step-" + std::to_string(step)));
  }
  const std::vector<std::string> texts = in_processes(2, [&](std::shared_ptr<comm::Comm> comm) {
    const bool odd = comm->local_ranks().front() == 1;
    LayoutRun run(Problem(), l, std::move(comm));
    std::string text;
    for (const char* name : {"step-1", "nowhere"}) {
      try {
        run.trainer().loads().load(folder.file(odd ? name : "step-2"), false);
      } catch (const Error& error) {
        text += error.message() + "\n";
      }
    }
    return text + summary_of({run.step()});
  });
  const std::string first = summary_of({LayoutRun(Problem(), l).step()});  // nothing was loaded
  for (const std::string& text : texts) {
    EXPECT_NE(text.find("rank 0 and rank 1 were given different checkpoints, of step 2 and step 1"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("rank 1: "), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("\n" + first)) << text;
  }
}

/// One of two machines has an older processor, so both compute with the kernels of its level.
TEST(ProcessRanks, OfUnlikeProcessorsTakeTheKernelsThatAllCanRun) {
  const ScratchFolder folder;
  const config::ConfigTree usual = [&] {
    config::ConfigTree config = small_config(write_tokens(folder, 4000));
    config.set("/mesh/dp_shard", "2");
    return config;
  }();
  config::ConfigTree older = usual;
  older.set("/cpu/max_isa", "\"generic\"");
  const auto two_steps = [](const config::ConfigTree& config, std::shared_ptr<comm::Comm> comm) {
    std::atomic<bool> cancel{false};
    const auto trainer = train::Trainer::create(config, false, &cancel, std::move(comm));
    trainer->train_step();
    const std::string level = nlohmann::json::parse(trainer->reports().info_json()).at("cpu_level");
    return fmt::format("{} {}", level, trainer->train_step().loss);
  };
  const std::string expected = two_steps(older, comm::make_local(2));
  EXPECT_EQ(expected.substr(0, 8), "generic ");
  for (const int32_t odd_one : {0, 1})
    for (const std::string& text : in_processes(2, [&](std::shared_ptr<comm::Comm> comm) {
           const bool old = comm->local_ranks().front() == odd_one;
           return two_steps(old ? older : usual, std::move(comm));
         }))
      EXPECT_EQ(text, expected) << "the old one is rank " << odd_one;
}

/// A request to one process reaches the others in the reduction of its next step.
TEST(ProcessRanks, StopAfterTheSameStepWhenOneOfThemIsCancelled) {
  const ScratchFolder folder;
  config::ConfigTree config = small_config(write_tokens(folder, 4000));
  config.set("/mesh/dp_shard", "2");
  const std::vector<std::string> texts = in_processes(2, [&](std::shared_ptr<comm::Comm> comm) {
    const bool cancels = comm->local_ranks().front() == 1;
    std::atomic<bool> cancel{false};
    const auto trainer = train::Trainer::create(config, false, &cancel, std::move(comm));
    try {
      trainer->loop().run(30, [&](const train::TrainRecord& record) {
        if (cancels && record.result.step == 3) cancel = true;
        return true;
      });
    } catch (const Error& e) {
      return std::string(e.code() == Code::kCancelled ? "" : "another error: ") + e.message();
    }
    return std::string("never stopped");
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "training was cancelled after step 4");
}

/// Clocks and the duration of saves differ between processes. Rank 0's clock decides, so no process saves
/// alone.
TEST(ProcessRanks, SaveTheSameStepsWhenTheySaveByTime) {
  const ScratchFolder folder;
  config::ConfigTree config = small_config(write_tokens(folder, 4000));
  config.set("/mesh/dp_shard", "2");
  config.set("/checkpoint/path", "\"" + folder.file("run") + "\"");
  config.set("/checkpoint/every_seconds", "1e-9");
  const std::vector<std::string> texts = in_processes(2, [&](std::shared_ptr<comm::Comm> comm) {
    const bool late = comm->local_ranks().front() == 1;
    std::atomic<bool> cancel{false};
    const auto trainer = train::Trainer::create(config, false, &cancel, std::move(comm));
    std::string saved;
    trainer->loop().run(30, [&](const train::TrainRecord& record) {
      if (late && record.result.step == 5) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (record.saved) saved += std::to_string(record.result.step) + " ";
      return true;
    });
    return saved;
  });
  EXPECT_TRUE(texts[0].starts_with("2 ") && texts[0].ends_with(" 30 ")) << texts[0];
  EXPECT_EQ(texts[0], texts[1]);
}

}  // namespace process_ranks_test
}  // namespace hawser::testing
