// What it costs to know who is there, and how soon a loss is known, on this machine: meeting of many
// processes, time from a kill or a stop to the error on the last of the others, and what a rank pays for its
// record of calls and its signs of life. No test: run it by hand.
//
//   bench_faults [RANKS]
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "engine/comm/flight_recorder.h"
#include "engine/comm/gate.h"
#include "tests/harness/rank_processes.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

double seconds_in(const RankReport& report) { return std::atof(report.text.c_str()); }

/// From the start of the last process to the last one connected.
void measure_meeting(int32_t ranks) {
  const auto reports = RankProcesses(ranks).run([](const comm::AddressOptions& options) {
    const double begin = comm::steady_seconds();
    const auto job = comm::make_address(options);
    const double met = comm::steady_seconds() - begin;
    const auto end = job->connect(options.rank, test_comm_options());
    const auto group = world_group(*end);
    group->wait(group->barrier());
    return std::to_string(met);
  });
  double longest = 0;
  for (const RankReport& report : reports) longest = std::max(longest, seconds_in(report));
  std::printf("meeting of %d processes: %.3f s, each to each connected (%d connections)\n", ranks, longest,
              ranks * (ranks - 1) / 2);
}

/// From the signal to the error on the last of the others, the median of several.
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
                                   const double begin = comm::steady_seconds();
                                   try {
                                     group->wait(group->barrier());
                                   } catch (const Error&) {
                                   }
                                   return std::to_string(comm::steady_seconds() - begin);
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

void measure_record() {
  comm::FlightRecorder recorder;
  constexpr uint64_t kCalls = 2'000'000;
  const double begin = comm::steady_seconds();
  for (uint64_t t = 1; t <= kCalls; ++t) {
    recorder.queued({.ticket = t, .sequence = t, .bytes = 64, .issued = 1});
    recorder.running(t, 1);
    recorder.ended(t, 2, comm::CallState::kFinished);
  }
  const double each = (comm::steady_seconds() - begin) / kCalls;
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
  measure_record();
  measure_beats();
  return 0;
}
