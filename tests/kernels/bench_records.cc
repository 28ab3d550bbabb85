// Benchmark of records of integers and of fp8: bytes read and written a second by encoding and decoding on
// one core, at each CPU level, and their share of the rate of memcpy in the same run. All arrays together
// exceed the caches.
//
//   bench_records [MILLIONS OF NUMBERS, default 16]
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "engine/device/cpu/host_memory.h"
#include "engine/device/cpu/thread_pool.h"
#include "tests/harness/kernel_levels.h"

namespace hawser::bench {
namespace {

/// In huge pages, like the engine's arena. The pages are touched.
char* memory(int64_t bytes) {
  char* const p = device::map_memory(bytes);
  if (p == nullptr) std::abort();
  std::memset(p, 1, static_cast<size_t>(bytes));
  return p;
}

/// Processor time of this thread: a busy machine disturbs it less than the clock.
double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Case {
  std::string name;
  double bytes;
  std::function<void()> call;
};

/// Returns the median rate of each case, of rounds in which all take turns.
std::vector<double> rates(const std::vector<Case>& cases) {
  constexpr size_t kRounds = 11;
  std::vector<std::array<double, kRounds>> all(cases.size());
  for (size_t round = 0; round < kRounds; ++round)
    for (size_t c = 0; c < cases.size(); ++c) {
      const double begin = seconds();
      cases[c].call();
      all[c][round] = cases[c].bytes / (seconds() - begin);
    }
  std::vector<double> medians;
  for (auto& of_case : all) {
    std::nth_element(of_case.begin(), of_case.begin() + kRounds / 2, of_case.end());
    medians.push_back(of_case[kRounds / 2]);
  }
  return medians;
}

void run(int64_t n) {
  device::ThreadPool pool(1);
  Stream& stream = pool.stream();
  char *const x = memory(4 * n), *const y = memory(4 * n), *const records = memory(4 * n);
  char* const narrow = memory(2 * n);
  for (int64_t i = 0; i < n; ++i) {
    reinterpret_cast<float*>(x)[i] = static_cast<float>(i * 7919 % 20011) / 10005.0f - 1;
    reinterpret_cast<uint16_t*>(narrow)[i] = static_cast<uint16_t>(0x3f80 + i % 97);
  }
  for (const kernels::KernelTable* table : testing::kernel_tables()) {
    std::vector<Case> cases{
        {"copy", 8.0 * static_cast<double>(n), [&] { std::memcpy(y, x, static_cast<size_t>(4 * n)); }}};
    for (const DType type : {DType::kI8Block, DType::kI4Block, DType::kE4m3Block})
      for (const DType numbers : {DType::kF32, DType::kBf16}) {
        const bool f32 = numbers == DType::kF32;
        const char* const word = type == DType::kI8Block ? "int8" : type == DType::kI4Block ? "int4" : "e4m3";
        const std::string name = std::string(word) + (f32 ? ", f32" : ", bf16");
        const auto bytes = static_cast<double>(dtype_bytes(numbers, n) + dtype_bytes(type, n));
        const char* const from = f32 ? x : narrow;
        char* const to = f32 ? y : narrow;
        if (type == DType::kE4m3Block) {
          cases.push_back({"encode " + name, bytes, [=, &stream] {
                             table->fp8_encode({records, type, from, numbers, 1, n}, stream);
                           }});
          cases.push_back({"decode " + name, bytes, [=, &stream] {
                             table->fp8_decode({to, numbers, records, type, 1, n}, stream);
                           }});
          continue;
        }
        cases.push_back({"encode " + name, bytes, [=, &stream] {
                           table->block_encode({records, type, from, numbers, n}, stream);
                         }});
        cases.push_back({"decode " + name, bytes, [=, &stream] {
                           table->block_decode({to, numbers, records, type, n}, stream);
                         }});
      }
    const std::vector<double> found = rates(cases);
    std::printf("%s: copy %.1f GB/s", table->name, found[0] / 1e9);
    for (size_t c = 1; c < cases.size(); ++c)
      std::printf("; %s %.1f (%.2f)", cases[c].name.c_str(), found[c] / 1e9, found[c] / found[0]);
    std::printf("\n");
  }
  for (char* const p : {x, y, records}) device::unmap_memory(p, 4 * n);
  device::unmap_memory(narrow, 2 * n);
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) {
  hawser::bench::run((argc > 1 ? std::atoll(argv[1]) : 16) * 1000000);
  return 0;
}
