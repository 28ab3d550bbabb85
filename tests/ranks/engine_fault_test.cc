// Engine fault tests: the ranks of an engine are processes, one of which is killed or stopped in each
// phase: a step, a save, an asynchronous save, a load, the end. The other processes return an error that
// names its rank, and leave nothing behind. An older checkpoint is unchanged. From it, a new engine in the
// same process resumes with the bits of an undisturbed run.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "engine/base/error.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/rank_processes.h"

namespace hawser::testing {
namespace engine_fault_test {

namespace fs = std::filesystem;

Layout shards(int32_t ranks) {
  Layout l;
  l.dp_shard = ranks;
  l.stage = 3;
  return l;
}

struct Phase {
  const char* name;
  double within_seconds;  ///< the victim dies within these seconds of the phase; 0: before it
  int signal = SIGKILL;
};
constexpr Phase kPhases[] = {{"step", 0},   {"step", 0.02},   {"save", 0}, {"save", 0.02},
                             {"beside", 0}, {"beside", 0.02}, {"load", 0}, {"destroy", 0}};

class EngineFaults : public ::testing::TestWithParam<int32_t> {
 protected:
  EngineFaults()
      : folder_(fs::temp_directory_path() /
                ("hawser-engine-faults-" + std::to_string(::getpid()) + "-" + std::to_string(GetParam()))) {
    fs::create_directories(folder_);
  }
  ~EngineFaults() override { fs::remove_all(folder_); }

  /// Returns the summary of the second step of a run in one process, from the checkpoint of the first step.
  std::string second_step() const {
    LayoutRun run(Problem(), shards(GetParam()));
    run.trainer().loads().load((folder_ / "first").string(), false);
    run.skip_to(1);
    return summary_of({run.step()});
  }

  std::string live(const comm::AddressOptions& options, const Phase& phase, int32_t victim) const {
    const Belongings before = belongings();
    const bool dies = options.rank == victim;
    const std::string error = train(options, phase, dies);
    if (error.empty()) return "nothing happened";
    if (!belongings_become(before)) return "left behind: " + before.text() + ", then " + belongings().text();
    return error + "\n" + second_step();
  }

  /// Runs the phase until it fails, and returns the error.
  std::string train(const comm::AddressOptions& options, const Phase& phase, bool dies) const {
    try {
      LayoutRun run(Problem(), shards(GetParam()), comm::make_address(options));
      run.step();
      if (!fs::exists(folder_ / "first")) run.trainer().saves().save((folder_ / "first").string());
      run.step();
      if (dies && phase.within_seconds > 0) {
        std::thread([seconds = phase.within_seconds * (getpid() % 7) / 6] {
          std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
          ::kill(getpid(), SIGKILL);
        }).detach();
      } else if (dies) {
        ::raise(phase.signal);
      }
      const std::string name = phase.name;
      for (int saves = 0;;) {
        if (name == "save") {
          run.trainer().saves().save((folder_ / ("second-" + std::to_string(++saves))).string());
        } else if (name == "beside") {
          const auto path = folder_ / ("second-" + std::to_string(++saves));
          const auto operation = run.trainer().saves().save_async(path.string());
          if (saves % 2 == 0) run.step();
          operation->wait(-1);
        } else if (name == "load") {
          run.trainer().loads().load((folder_ / "first").string(), false);
          run.step();  // the ranks communicate here at the latest
        } else if (name == "step") {
          run.step();
        } else {
          return "HWS_UNAVAILABLE: none is due, rank " + std::to_string(options.rank) + " just ends";
        }
      }
    } catch (const Error& error) {
      return fmt::format("{} {}", code_name(error.code()), error.message());
    }
  }

  void save_first() const {
    LayoutRun run(Problem(), shards(GetParam()));
    run.step();
    run.trainer().saves().save((folder_ / "first").string());
  }

  /// Ends the victim in this phase, and expects that the other processes name it and continue without it.
  void drill(const Phase& phase, int32_t victim, double silence_seconds) const {
    SCOPED_TRACE(::testing::Message()
                 << phase.name << (phase.within_seconds > 0 ? ", within" : "") << ", rank " << victim);
    const auto reports =
        RankProcesses(GetParam(), silence_seconds)
            .run([&](const comm::AddressOptions& options) { return live(options, phase, victim); }, victim);
    const std::string expected = second_step();
    for (int32_t r = 0; r < GetParam(); ++r) {
      const std::string& text = reports[static_cast<size_t>(r)].text;
      if (r == victim) {
        EXPECT_TRUE(reports[static_cast<size_t>(r)].killed);
        continue;
      }
      EXPECT_TRUE(text.starts_with("HWS_UNAVAILABLE")) << "rank " << r << ": " << text;
      const bool named = text.find(fmt::format("rank {} of {}", victim, GetParam())) != std::string::npos;
      EXPECT_TRUE(named || std::string(phase.name) == "destroy") << "rank " << r << ": " << text;
      EXPECT_TRUE(text.ends_with("\n" + expected)) << "rank " << r << ": " << text;
    }
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      const bool whole = name.starts_with("second-") && fs::exists(entry.path() / "manifest.json");
      EXPECT_TRUE(name == "first" || whole || name.find("tmp") != std::string::npos) << name;
      if (name != "first") fs::remove_all(entry.path());
    }
  }

  const fs::path folder_;
};

TEST_P(EngineFaults, AreNamedAndTheNextEngineGoesOn) {
  save_first();
  for (const Phase& phase : kPhases) drill(phase, static_cast<int32_t>(&phase - kPhases) % GetParam(), 10);
}

/// A stopped process closes no connection, so the others notice only that it is silent.
TEST_P(EngineFaults, OfOneThatStandsStillAreNamedToo) {
  save_first();
  const char* const phases[] = {"step", "save", "load"};
  drill({phases[GetParam() - 2], 0, SIGSTOP}, GetParam() - 1, 1.5);
  if (GetParam() == 2) drill({"beside", 0, SIGSTOP}, 0, 1.5);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EngineFaults, ::testing::Values(2, 3, 4));

}  // namespace engine_fault_test
}  // namespace hawser::testing
