// Thread fault tests: the ranks of an engine are threads. One of two, three or four ranks fails, or is
// late, in each phase of an engine's life: start, step, evaluation, save, load, end. The call returns the
// right error within the deadline, and the error names the rank. Nothing is left behind. In the same
// process, over the same comm, a new engine loads the last checkpoint and continues with the bits of an
// undisturbed run.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/base/error.h"
#include "engine/comm/gate.h"
#include "tests/harness/faulty_comm.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/rank_processes.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace thread_fault_test {

using comm::Operation;

struct Phase {
  const char* name;
  int64_t stage;  ///< ZeRO stage, on which the calls of an engine depend
  Operation operation;
};
// Every kind of call that an engine makes in each phase. Between threads, a load only makes calls to publish
// weights.
constexpr Phase kPhases[] = {
    {"start", 3, FaultyComm::kConnect},     {"start", 3, Operation::kAllGather},
    {"start", 3, Operation::kBroadcast},    {"step", 3, Operation::kAllGather},
    {"step", 3, Operation::kReduceScatter}, {"step", 3, Operation::kAllReduceI64},
    {"step", 0, Operation::kReduceScatter}, {"step", 2, Operation::kAllReduce},
    {"commit", 2, Operation::kAllGather},   {"eval", 3, Operation::kAllGather},
    {"save", 3, Operation::kAllGather},     {"save", 3, Operation::kBroadcast},
    {"load", 2, Operation::kAllGather},
};

Layout layout_of(const Phase& phase, int32_t ranks) {
  Layout l;
  l.stage = phase.stage;
  const bool hybrid = phase.operation == Operation::kAllReduce;  // only sums over copies of shards use it
  l.dp_replicate = phase.stage == 0 ? ranks : hybrid ? 2 : 1;
  l.dp_shard = ranks / l.dp_replicate;
  return l;
}

struct Case {
  Phase phase;
  int32_t ranks, victim;
  std::string name() const {
    return fmt::format("{} at {}, stage {}, rank {} of {}", phase.name,
                       phase.operation == FaultyComm::kConnect ? "connect" : operation_name(phase.operation),
                       phase.stage, victim, ranks);
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Phase& phase : kPhases) {
    // Sums over copies of shards need four ranks. Broadcasts need three, because two ranks gather all texts.
    const int32_t fewest = phase.operation == Operation::kAllReduce   ? 4
                           : phase.operation == Operation::kBroadcast ? 3
                                                                      : 2;
    for (int32_t ranks = fewest; ranks <= 4; ++ranks)
      all.push_back({phase, ranks, (static_cast<int32_t>(&phase - kPhases) + ranks) % ranks});
  }
  return all;
}

/// Makes the call of the phase.
void go_through(const Case& c, LayoutRun& run, const ScratchFolder& folder) {
  const std::string name = c.phase.name;
  train::Trainer& trainer = run.trainer();
  if (name == "step") {
    run.step();
  } else if (name == "eval") {
    const Rows rows = rows_of(Problem(), 2 * c.ranks, 0);
    const train::BatchView batch = {rows.rows, rows.cols, rows.tokens.data(), rows.targets.data(), nullptr};
    trainer.inference().eval(&batch, 0);
  } else if (name == "save") {
    trainer.saves().save(folder.file("second"));
  } else if (name == "load") {
    trainer.loads().load(folder.file("first"), false);
  } else {
    run.step();  // "commit": the call is in the update phase
  }
}

/// Runs one case. Returns "" if everything is as expected, otherwise what is not.
std::string live(const Case& c, double deadline, const Mishap& mishap, Code expected,
                 const std::string& words) {
  const ScratchFolder folder;
  const Layout layout = layout_of(c.phase, c.ranks);
  const auto comm = std::make_shared<FaultyComm>(c.ranks, c.victim, deadline, mishap);
  std::string next;
  {
    LayoutRun run(Problem(), layout, comm);
    run.step();
    run.trainer().saves().save(folder.file("first"));
    next = summary_of({run.step()});
  }
  std::string error = "nothing happened";
  const double begin = steady_seconds();
  try {
    const bool starts = std::string(c.phase.name) == "start";
    if (starts) comm->arm();
    LayoutRun run(Problem(), layout, comm);
    comm->arm();
    go_through(c, run, folder);
  } catch (const Error& e) {
    error = e.message();
    if (e.code() != expected)
      error = fmt::format("{} instead of {}: {}", code_name(e.code()), code_name(expected), error);
    else if (error.find(words) != std::string::npos)
      error.clear();
  }
  if (steady_seconds() - begin > deadline + 8) error += " (too late)";
  comm->disarm();
  if (error.empty()) {
    LayoutRun again(Problem(), layout, comm);
    again.trainer().loads().load(folder.file("first"), false);
    again.skip_to(1);
    if (summary_of({again.step()}) != next) error = "the next engine goes on with other bits";
  }
  return error.empty() ? "" : c.name() + ": " + error;
}

/// Runs all cases at once, because they mostly wait for each other or for a deadline. Returns all problems.
std::vector<std::string> side_by_side(const std::function<std::string(const Case&)>& live_through) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<std::string> problems;
  for (const Case& c : cases())
    threads.emplace_back([&, c] {
      const std::string problem = live_through(c);
      const std::lock_guard lock(mutex);
      if (!problem.empty()) problems.push_back(problem);
    });
  for (std::thread& thread : threads) thread.join();
  return problems;
}

TEST(EngineThreadFaults, ARankThatFailsIsNamedAndTheNextEngineGoesOn) {
  const Belongings before = belongings();
  const auto problems = side_by_side([](const Case& c) {
    const Mishap fails = [&](Operation now) {
      if (now == c.phase.operation) fail(Code::kDataLoss, "injected");
    };
    // A rank that fails to connect has no number in the error.
    const bool connects = c.phase.operation == FaultyComm::kConnect;
    return live(c, 20, fails, Code::kDataLoss,
                connects ? "injected" : fmt::format("rank {}: injected", c.victim));
  });
  EXPECT_EQ(problems, std::vector<std::string>());
  EXPECT_TRUE(belongings_become(before)) << before.text() << ", then " << belongings().text();
}

/// The deadline does not apply to a rank that is late to connect, so that phase is left out.
TEST(EngineThreadFaults, ARankThatIsLateIsNamedWhenTheDeadlineIsOver) {
  constexpr double kDeadline = 5;
  const Belongings before = belongings();
  const auto problems = side_by_side([=](const Case& c) {
    if (c.phase.operation == FaultyComm::kConnect) return std::string();
    const Mishap late = [&](Operation now) {
      if (now == c.phase.operation) std::this_thread::sleep_for(std::chrono::duration<double>(kDeadline + 1));
    };
    return live(c, kDeadline, late, Code::kTimeout, fmt::format("check what delays rank {}", c.victim));
  });
  EXPECT_EQ(problems, std::vector<std::string>());
  EXPECT_TRUE(belongings_become(before)) << before.text() << ", then " << belongings().text();
}

/// An engine may be destroyed while a step is pending, although no rank has failed.
TEST(EngineThreadFaults, AnEngineMayEndWithAStepPending) {
  for (int32_t ranks = 2; ranks <= 4; ++ranks) {
    const Belongings before = belongings();
    {
      LayoutRun run(Problem(), layout_of(kPhases[0], ranks));
      const Rows rows = rows_of(Problem(), 2 * ranks, 0);
      run.trainer().push({rows.rows, rows.cols, rows.tokens.data(), rows.targets.data(), nullptr});
      run.trainer().forward_backward();
    }
    EXPECT_TRUE(belongings_become(before)) << before.text() << ", then " << belongings().text();
  }
}

}  // namespace thread_fault_test
}  // namespace hawser::testing
