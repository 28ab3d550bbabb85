// Pipeline fault test: one rank fails or hangs at a random call of its step, or its process is killed or
// stopped. All ranks end with an error that names it. A stage that waits for a stage that is itself waiting
// must not name that stage.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "engine/base/error.h"
#include "tests/harness/faulty_comm.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/rank_processes.h"
#include "tests/harness/schedules.h"

namespace hawser::testing {
namespace pipeline_fault_test {

struct Drill {
  std::string schedule;
  int64_t stages;
  int32_t victim;
  int64_t ep = 1;  ///< ranks of a stage, which divide experts
  Layout layout() const {
    Layout l;
    l.dp_shard = l.ep = ep;
    l.pp = stages, l.schedule = schedule, l.chunks = chunks_of(schedule);
    l.accumulation = 2 * stages;
    return l;
  }
};

Problem problem(const Drill& d) {
  Problem p;
  p.layers = 8;
  if (d.ep > 1) p.like_gpt2 = false, p.experts = R"({"experts": 4, "top_k": 2, "width": 12})";
  return p;
}

/// Returns every schedule with two of its four ranks as victims, adjacent in the pipeline or not.
std::vector<Drill> drills(std::mt19937* random) {
  std::vector<Drill> all;
  for (const std::string& schedule : all_schedules()) {
    const auto first = static_cast<int32_t>((*random)() % 4);
    const auto second = static_cast<int32_t>((first + 1 + (*random)() % 3) % 4);
    for (const int32_t victim : {first, second}) all.push_back({schedule, 4, victim});
  }
  for (int i = 0; i < 2; ++i)  // most calls belong to overlapped tasks, on either of their stacks
    all.push_back({"dualpipev", 2, static_cast<int32_t>((*random)() % 4), 2});
  return all;
}

/// Returns the victim's number of calls in a step.
int64_t calls_of(const Drill& d) {
  std::atomic<int64_t> calls{0};
  const auto comm = std::make_shared<FaultyComm>(static_cast<int32_t>(d.layout().world()), d.victim, 20,
                                                 [&](comm::Operation) { ++calls; });
  LayoutRun run(problem(d), d.layout(), comm);
  run.step();
  comm->arm();
  run.step();
  return calls;
}

/// Returns the error of a step in which `mishap` happens at the victim's call number `at`, as "CODE message".
std::string error_of(const Drill& d, double deadline, int64_t at, const std::function<void()>& mishap) {
  std::atomic<int64_t> calls{0};
  const auto comm = std::make_shared<FaultyComm>(static_cast<int32_t>(d.layout().world()), d.victim, deadline,
                                                 [&, at](comm::Operation) {
                                                   if (calls++ == at) mishap();
                                                 });
  try {
    LayoutRun run(problem(d), d.layout(), comm);
    run.step();
    comm->arm();
    run.step();
  } catch (const Error& e) {
    return fmt::format("{} {}", code_name(e.code()), e.message());
  }
  return "nothing happened";
}

/// Runs all drills concurrently, because they mostly wait, each at a random call. Returns the errors that do
/// not name the victim as `words` requires.
std::vector<std::string> misnamed(double deadline, const std::function<void()>& mishap,
                                  const std::function<std::string(const Drill&)>& words) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<std::string> problems;
  for (const Drill& d : drills(&random)) {
    const int64_t at = static_cast<int64_t>(random() % static_cast<uint32_t>(calls_of(d)));
    threads.emplace_back([&, d, at] {
      const std::string error = error_of(d, deadline, at, mishap);
      const std::lock_guard lock(mutex);
      if (error.find(words(d)) == std::string::npos)
        problems.push_back(fmt::format("{} rank {} at call {}: {}", d.schedule, d.victim, at, error));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return problems;
}

TEST(PipelineFaults, ARankThatFailsAtAnyCallEndsAllWithItsName) {
  constexpr double kDeadline = 600;  // longer than the test may take, so nobody reaches it
  const Belongings before = belongings();
  EXPECT_EQ(misnamed(
                kDeadline, [] { fail(Code::kDataLoss, "injected"); },
                [](const Drill& d) { return fmt::format("HWS_DATA_LOSS rank {}: injected", d.victim); }),
            std::vector<std::string>());
  EXPECT_TRUE(belongings_become(before)) << before.text() << ", then " << belongings().text();
}

TEST(PipelineFaults, ARankThatStandsStillAtAnyCallIsNamedAtTheDeadline) {
  constexpr double kDeadline = 4;
  const Belongings before = belongings();
  EXPECT_EQ(misnamed(
                kDeadline, [] { std::this_thread::sleep_for(std::chrono::duration<double>(2 * kDeadline)); },
                [](const Drill& d) { return fmt::format("check what delays rank {}", d.victim); }),
            std::vector<std::string>());
  EXPECT_TRUE(belongings_become(before)) << before.text() << ", then " << belongings().text();
}

/// Over TCP: the victim is killed or stopped at a random moment of its steps.
void fall(int signal, double silence_seconds) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int32_t victim = 0; victim < 3; ++victim) {
    const Drill d{victim == 1 ? "zb_h1" : "1f1b", 3, victim};
    const double after = 0.001 * static_cast<double>(random() % 50);
    const auto reports = RankProcesses(3, silence_seconds)
                             .run(
                                 [&](const comm::AddressOptions& options) {
                                   try {
                                     LayoutRun run(problem(d), d.layout(), comm::make_address(options));
                                     run.step();
                                     if (options.rank == victim)
                                       std::thread([after, signal] {
                                         std::this_thread::sleep_for(std::chrono::duration<double>(after));
                                         ::kill(::getpid(), signal);
                                       }).detach();
                                     for (;;) run.step();
                                   } catch (const Error& e) {
                                     return fmt::format("{} {}", code_name(e.code()), e.message());
                                   }
                                 },
                                 victim);
    for (int32_t r = 0; r < 3; ++r) {
      const std::string& text = reports[static_cast<size_t>(r)].text;
      if (r == victim) continue;
      EXPECT_TRUE(text.starts_with("HWS_UNAVAILABLE")) << "rank " << r << ": " << text;
      EXPECT_NE(text.find(fmt::format("rank {} of 3", victim)), std::string::npos)
          << "rank " << r << ": " << text;
    }
  }
}

TEST(PipelineFaults, AKilledProcessIsNamedByAllOthers) { fall(SIGKILL, 10); }
TEST(PipelineFaults, AStoppedProcessIsNamedByAllOthers) { fall(SIGSTOP, 1.5); }

}  // namespace pipeline_fault_test
}  // namespace hawser::testing
