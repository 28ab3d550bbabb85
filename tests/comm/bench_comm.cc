// Benchmark of an all-reduce of 64 MB between ranks of this machine, in one run: between threads; by Gloo's
// own ring over the loopback device, unordered; and by our ordered sum between connected ranks, over TCP and
// through shared memory. It prints milliseconds (median and best), and how many times as fast as Gloo's ring
// threads and shared memory are. It is not a test: run it by hand. It includes the engine's own headers,
// because the C API offers no collectives by themselves.
//
//   bench_comm [MEGABYTES]     MEGABYTES 0: only the exchanges of two threads within a block, in a lane with
//                              at_once, next to copies of as many bytes
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/comm/tcp_worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

constexpr int kWarm = 2, kCalls = 9;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Timing {
  double median = 0, best = 0;
};

Timing timing_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds[0]};
}

Timing measure(const std::vector<std::shared_ptr<comm::Comm>>& world, int64_t elements) {
  std::vector<double> seconds;
  const auto errors = run_world(
      world,
      [&](comm::RankComm& rank) {
        const auto group = world_group(rank);
        std::vector<float> x(static_cast<size_t>(elements), 1.0f);
        const comm::AllReducePiece piece = {x.data(), x.data(), elements};
        for (int call = 0; call < kWarm + kCalls; ++call) {
          group->wait(group->barrier());
          const double begin = now();
          group->wait(group->all_reduce({&piece, 1}, {}));
          group->wait(group->barrier());
          if (rank.rank() == 0 && call >= kWarm) seconds.push_back(now() - begin);
        }
      },
      test_comm_options());
  for (const auto& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
  return timing_of(std::move(seconds));
}

/// Measures Gloo's ring alone, with ranks as threads that are connected over the loopback device.
Timing measure_gloo(int32_t ranks, int64_t elements) {
  gloo::rendezvous::HashStore store;
  std::barrier meet(ranks);
  std::vector<double> seconds;
  const auto run = [&](int32_t rank) {
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->connectFullMesh(store, device);
    std::vector<float> x(static_cast<size_t>(elements), 1.0f);
    for (int call = 0; call < kWarm + kCalls; ++call) {
      meet.arrive_and_wait();
      const double begin = now();
      gloo::AllreduceOptions options(context);
      options.setOutput(x.data(), x.size());
      options.setReduceFunction(
          [](void* out, const void* a, const void* b, size_t n) { gloo::sum<float>(out, a, b, n); });
      gloo::allreduce(options);
      meet.arrive_and_wait();
      if (rank == 0 && call >= kWarm) seconds.push_back(now() - begin);
    }
  };
  std::vector<std::thread> threads;
  for (int32_t r = 0; r < ranks; ++r) threads.emplace_back(run, r);
  for (std::thread& thread : threads) thread.join();
  return timing_of(std::move(seconds));
}

/// Returns the bytes per second that one thread copies, counting each byte once as read and once as written.
double copy_rate(int64_t bytes) {
  std::vector<char> from(static_cast<size_t>(bytes), 1), to(static_cast<size_t>(bytes), 2);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const double begin = now();
    std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes));
    best = std::min(best, now() - begin);
  }
  return 2.0 * static_cast<double>(bytes) / best;
}

void report(int32_t ranks, int64_t bytes, double rate) {
  const int64_t elements = bytes / 4;
  const Timing local = measure(local_world(ranks), elements), gloo = measure_gloo(ranks, elements),
               tcp = measure(tcp_world(ranks), elements), shared = measure(shared_world(ranks), elements);
  // Each owner reads its part of all inputs and writes it to all members: 2 * bytes of traffic per rank.
  const double limit = 2.0 * static_cast<double>(bytes) / rate;
  std::printf("%d ranks, %.0f MB, milliseconds, median (best)\n", ranks, static_cast<double>(bytes) / 1e6);
  std::printf("  local         %7.2f (%.2f); %.2f if each rank had a copying thread's bandwidth to itself\n",
              local.median * 1e3, local.best * 1e3, limit * 1e3);
  std::printf("  Gloo's ring   %7.2f (%.2f); local is %.1f times as fast (best to best %.1f)\n",
              gloo.median * 1e3, gloo.best * 1e3, gloo.median / local.median, gloo.best / local.best);
  std::printf("  shared memory %7.2f (%.2f); %.1f times as fast as Gloo's (best to best %.1f)\n",
              shared.median * 1e3, shared.best * 1e3, gloo.median / shared.median, gloo.best / shared.best);
  std::printf("  ours on TCP   %7.2f (%.2f)\n", tcp.median * 1e3, tcp.best * 1e3);
}

/// Returns the seconds of one all_reduce between two threads in an at_once lane, averaged over several in a
/// row.
Timing measure_exchange(int64_t bytes) {
  constexpr int kRounds = 15, kInARow = 20;
  std::vector<double> seconds;
  const auto errors = run_world(
      local_world(2),
      [&](comm::RankComm& rank) {
        const auto group =
            rank.make_group({0, 1}, "exchange", {.name = "block", .at_once = true}, comm::LinkTopology::kAll);
        std::vector<float> x(static_cast<size_t>(bytes / 4), 1.0f);
        const comm::AllReducePiece piece = {x.data(), x.data(), bytes / 4};
        for (int round = 0; round < kWarm + kRounds; ++round) {
          group->wait(group->barrier());
          const double begin = now();
          for (int i = 0; i < kInARow; ++i) group->wait(group->all_reduce({&piece, 1}, {}));
          if (rank.rank() == 0 && round >= kWarm) seconds.push_back((now() - begin) / kInARow);
        }
      },
      test_comm_options());
  for (const auto& error : errors)
    if (error != nullptr) std::rethrow_exception(error);
  return timing_of(std::move(seconds));
}

void report_exchanges() {
  std::printf("all_reduce of two threads within a block, microseconds, median (best)\n");
  for (const int64_t kib : {4, 64, 768, 6144}) {
    const Timing exchange = measure_exchange(kib * 1024);
    const double copy = 2.0 * static_cast<double>(kib * 1024) / copy_rate(kib * 1024);
    std::printf("  %5lld KiB  %8.1f (%.1f); a copy takes %.1f: %.1f copies (best %.1f)\n",
                static_cast<long long>(kib), exchange.median * 1e6, exchange.best * 1e6, copy * 1e6,
                exchange.median / copy, exchange.best / copy);
  }
}

}  // namespace
}  // namespace hawser::testing

int main(int argc, char** argv) {
  const int64_t bytes = (argc > 1 ? std::atoll(argv[1]) : 64) * 1'000'000;
  if (bytes < 0) {
    std::fprintf(stderr, "usage: bench_comm [MEGABYTES]\n");
    return 2;
  }
  try {
    hawser::testing::report_exchanges();
    if (bytes == 0) return 0;
    const double rate = hawser::testing::copy_rate(bytes);
    for (const int32_t ranks : {2, 4}) hawser::testing::report(ranks, bytes, rate);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_comm: %s\n", error.what());
    return 1;
  }
  return 0;
}
