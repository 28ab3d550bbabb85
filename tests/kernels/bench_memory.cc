// Benchmark of the kernels that wait for memory, at the sizes of training steps: the rate of each in GB/s,
// its share of a plain loop that reads, writes and updates as many arrays, and its share of the machine's
// best plain loop. The plain loop is measured before and after each call, because the rate of a shared
// machine changes. Operands are in no cache.
//
//   bench_memory [--threads 1] [--model 124M|0.5B] [--kernel PART_OF_A_NAME] [--level x86-64-v3]
//                [--rounds 9]
//
// A byte counts once when it is read and once when it is written. Elements per second compare types.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "engine/device/cpu/thread_pool.h"
#include "kernels/include/table.h"
#include "tests/bench/machine_limits.h"
#include "tests/bench/median.h"
#include "tests/bench/plain_stream.h"
#include "tests/kernels/bench_options.h"
#include "tests/kernels/memory_cases.h"

namespace hawser::bench {
namespace {

using kernels::KernelTable;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the bytes per second of the plain loop over the pool, on all workers.
double plain_rate(const Pool& pool, const StreamShape& shape, Stream& stream) {
  const int64_t n = pool.bytes() / 4 / shape.arrays() / stream.num_workers / 4096 * 4096;
  struct Work {
    const StreamShape& shape;
    float* base;
    int64_t n, workers;
  } work{shape, pool.floats(), n, stream.num_workers};
  const double begin = seconds();
  stream.run(
      &stream, stream.num_workers,
      [](void* to, int64_t task, int32_t) {
        const Work& w = *static_cast<const Work*>(to);
        float* arrays[kStreamArrays];
        for (int a = 0; a < w.shape.arrays(); ++a) arrays[a] = w.base + (a * w.workers + task) * w.n;
        run_plain_stream(w.shape, arrays, w.n);
      },
      &work);
  return 4.0 * static_cast<double>(n * stream.num_workers * shape.accesses()) / (seconds() - begin);
}

struct Rates {
  std::vector<double> bytes, elements, shares;
};

/// One round calls every copy of the operands once.
Rates measure(const MemoryCase& c, const Pool& plain, Stream& stream, int rounds) {
  Rates rates;
  for (int round = -1; round < rounds; ++round) {
    const double before = plain_rate(plain, c.plain, stream), begin = seconds();
    for (const auto& call : c.calls) call(stream);
    const double elapsed = seconds() - begin, after = plain_rate(plain, c.plain, stream);
    if (round < 0) continue;
    const auto calls = static_cast<double>(c.calls.size());
    const double rate = calls * static_cast<double>(c.bytes) / elapsed;
    rates.bytes.push_back(rate * 1e-9);
    rates.elements.push_back(calls * static_cast<double>(c.elements) / elapsed * 1e-9);
    rates.shares.push_back(200 * rate / (before + after));
  }
  return rates;
}

int main_with(int argc, char** argv) {
  Options options = {
      {"--threads", "1"}, {"--level", ""}, {"--kernel", ""}, {"--model", "124M"}, {"--rounds", "9"}};
  if (!read_options(argc, argv, &options)) return 2;
  const KernelTable* const table = level_named(options["--level"]);
  if (table == nullptr) return 2;
  const int threads = std::max(1, std::atoi(options["--threads"].c_str()));
  device::ThreadPool workers(threads);
  const double best = measure_limits(threads).bytes_per_second * 1e-9;
  std::printf("level %s, %d threads; bench_limits: %.1f GB/s\n", table->name, threads, best);
  std::printf("%-38s %8s %9s %9s %6s %6s %8s\n", "kernel", "GB/s", "elem/ns", "share %", "least", "most",
              "of best");
  const Pool plain(int64_t{96} << 20);
  Pool pool(kOperandBytes + (int64_t{64} << 20));
  for (const MemoryCaseMaker& maker : memory_cases(options["--model"])) {
    if (maker.name.find(options["--kernel"]) == std::string::npos) continue;
    const MemoryCase c = maker.make(*table, pool, threads);
    const Rates rates = measure(c, plain, workers.stream(), std::atoi(options["--rounds"].c_str()));
    const auto [least, most] = std::minmax_element(rates.shares.begin(), rates.shares.end());
    std::printf("%-38s %8.1f %9.2f %9.1f %6.1f %6.1f %8.1f\n", maker.name.c_str(), median(rates.bytes),
                median(rates.elements), median(rates.shares), *least, *most,
                100 * median(rates.bytes) / best);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
