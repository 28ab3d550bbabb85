// Benchmark of failure detection on this machine: the rendezvous of many processes; the time from a kill or a
// stop to the error on the last surviving rank, and to the next step without the lost rank; and the cost of
// the flight recorder and of heartbeats. It is not a test: run it by hand.
//
//   bench_faults [RANKS]
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <thread>

#include "engine/comm/flight_recorder.h"
#include "engine/comm/gate.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/rank_processes.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

double seconds_in(const RankReport& report) { return std::atof(report.text.c_str()); }

/// Measures, from the start of the last process, when all have completed the rendezvous, have completed a
/// small collective, and are connected in all pairs.
void measure_meeting(int32_t ranks) {
  const auto reports = RankProcesses(ranks).run([](const comm::AddressOptions& options) {
    const double begin = steady_seconds();
    const auto job = comm::make_address(options);
    const double met = steady_seconds() - begin;
    const auto end = job->connect(options.rank, test_comm_options());
    std::vector<int32_t> world(static_cast<size_t>(options.world_size));
    std::iota(world.begin(), world.end(), 0);
    const auto tree = end->make_group(world, "tree", {}, comm::LinkTopology::kTree);
    tree->wait(tree->barrier());
    const double agreed = steady_seconds() - begin;
    const auto all = end->make_group(world, "all");
    all->wait(all->barrier());
    return fmt::format("{} {} {}", met, agreed, steady_seconds() - begin);
  });
  double longest[3] = {};
  for (const RankReport& report : reports) {
    std::istringstream text(report.text);
    for (double& most : longest) {
      double seconds = 0;
      text >> seconds;
      most = std::max(most, seconds);
    }
  }
  const size_t in_tree = comm::partners(comm::LinkTopology::kTree, ranks, 0).size();
  std::printf(
      "%d processes: met after %.3f s, agreed by tree after %.3f s (%zu connections a rank), connected each "
      "to "
      "each (%d) after %.3f s\n",
      ranks, longest[0], longest[1], in_tree, ranks - 1, longest[2]);
}

/// Returns the time from the signal to the error on the last surviving rank, as the median of several trials.
double measure_loss(int32_t ranks, int signal, double silence, int times) {
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    const auto reports = RankProcesses(ranks, silence)
                             .run(
                                 [&](const comm::AddressOptions& options) {
                                   const auto job = comm::make_address(options);
                                   const auto end = job->connect(options.rank, test_comm_options());
                                   const auto group = world_group(*end);
                                   group->wait(group->barrier());
                                   if (options.rank == 1) ::raise(signal);
                                   const double begin = steady_seconds();
                                   try {
                                     group->wait(group->barrier());
                                   } catch (const Error&) {
                                   }
                                   return std::to_string(steady_seconds() - begin);
                                 },
                                 1);
    double longest = 0;
    for (size_t r = 0; r < reports.size(); ++r)
      longest = std::max(longest, r == 1 ? 0 : seconds_in(reports[r]));
    all.push_back(longest);
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

/// Returns a layout that divides the twelve rows of every step among `ranks`.
Layout shared_by(int32_t ranks) {
  Layout layout;
  layout.dp_shard = ranks, layout.stage = 3, layout.accumulation = 12 / ranks;
  return layout;
}

/// Takes a training step like LayoutRun's, without its records.
void take_step(LayoutRun& run, const Problem& problem, int64_t step) {
  const Rows rows = rows_of(problem, 12, step);
  run.trainer().push({rows.rows, rows.cols, rows.tokens.data(), rows.targets.data(), nullptr});
  run.trainer().train_step();
}

/// Seconds from the signal on the slowest of three surviving engines: until the error, the new rendezvous,
/// the loaded checkpoint, and the next step.
struct Recovery {
  double named = 0, met = 0, loaded = 0, stepped = 0;
};

Recovery go_on_without_rank_1(const comm::AddressOptions& options, const std::string& checkpoint,
                              int signal) {
  Problem problem;
  problem.micro_batch = 1;
  Recovery passed;
  double begin = 0;
  try {
    LayoutRun run(problem, shared_by(4), comm::make_address(options));
    take_step(run, problem, 0);
    run.trainer().saves().save(checkpoint);
    take_step(run, problem, 1);
    begin = steady_seconds();
    if (options.rank == 1) ::raise(signal);
    take_step(run, problem, 2);
  } catch (const Error&) {
    passed.named = steady_seconds() - begin;
  }
  comm::AddressOptions fewer = options;
  fewer.world_size = 3;
  fewer.rank = options.rank > 1 ? options.rank - 1 : options.rank;
  fewer.job = "meeting 2";
  auto comm = comm::make_address(fewer);
  passed.met = steady_seconds() - begin;
  LayoutRun run(problem, shared_by(3), std::move(comm));
  run.trainer().loads().load(checkpoint, false);
  passed.loaded = steady_seconds() - begin;
  take_step(run, problem, 1);
  passed.stepped = steady_seconds() - begin;
  return passed;
}

/// Returns the median of several trials.
Recovery measure_recovery(int signal, double silence, int times) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("hawser-bench-faults-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::vector<Recovery> all;
  for (int i = 0; i < times; ++i) {
    const std::string checkpoint = (folder / std::to_string(i)).string();
    const auto reports = RankProcesses(4, silence)
                             .run(
                                 [&](const comm::AddressOptions& options) {
                                   const Recovery r = go_on_without_rank_1(options, checkpoint, signal);
                                   return fmt::format("{} {} {} {}", r.named, r.met, r.loaded, r.stepped);
                                 },
                                 1);
    Recovery slowest;
    for (const RankReport& report : reports) {
      Recovery r;
      std::istringstream(report.text) >> r.named >> r.met >> r.loaded >> r.stepped;
      if (r.stepped > slowest.stepped) slowest = r;
    }
    all.push_back(slowest);
  }
  std::filesystem::remove_all(folder);
  std::sort(all.begin(), all.end(),
            [](const Recovery& a, const Recovery& b) { return a.stepped < b.stepped; });
  return all[all.size() / 2];
}

void print_recovery(const char* what, const Recovery& r) {
  std::printf(
      "%s: the next step of the other 3 is done after %.1f ms (named %.1f, met again %.1f, engine made and "
      "checkpoint "
      "loaded %.1f)\n",
      what, r.stepped * 1e3, r.named * 1e3, r.met * 1e3, r.loaded * 1e3);
}

void measure_record() {
  comm::FlightRecorder recorder;
  constexpr uint64_t kCalls = 2'000'000;
  const double begin = steady_seconds();
  for (uint64_t t = 1; t <= kCalls; ++t) {
    recorder.queued({.ticket = t, .sequence = t, .bytes = 64, .issued = 1});
    recorder.running(t, 1);
    recorder.ended(t, 2, comm::CallState::kFinished);
  }
  const double each = (steady_seconds() - begin) / kCalls;
  // A block of ZeRO-3 makes three calls a micro-batch; 48 blocks and a step of 1 s are a small, fast model.
  std::printf("record of a call: %.0f ns; of 200 calls in a step of 1 s: %.5f %%\n", each * 1e9,
              each * 200 * 100);
}

void measure_beats() {
  const auto cpu = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const auto reports = RankProcesses(4).run([&](const comm::AddressOptions& options) {
    const auto job = comm::make_address(options);
    const double begin = cpu();
    std::this_thread::sleep_for(std::chrono::seconds(5));
    return std::to_string((cpu() - begin) / 5);
  });
  double most = 0;
  for (const RankReport& report : reports) most = std::max(most, seconds_in(report));
  std::printf("signs of life of 4 ranks: %.5f %% of a core on the busiest\n", most * 100);
}

}  // namespace
}  // namespace hawser::testing

int main(int argc, char** argv) {
  using namespace hawser::testing;
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 64;
  if (ranks < 2) return std::fprintf(stderr, "usage: bench_faults [RANKS]\n"), 2;
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  measure_meeting(ranks);
  std::printf("a killed process, of 4: named on all others after %.1f ms (median of 9)\n",
              measure_loss(4, SIGKILL, 10, 9) * 1e3);
  std::printf("a stopped process, of 4, with 2 s: after %.2f s (median of 3)\n",
              measure_loss(4, SIGSTOP, 2, 3));
  print_recovery("a killed rank of an engine of 4", measure_recovery(SIGKILL, 10, 9));
  print_recovery("a stopped one, with 2 s", measure_recovery(SIGSTOP, 2, 3));
  measure_record();
  measure_beats();
  return 0;
}
