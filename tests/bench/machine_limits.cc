#include "tests/bench/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace hawser::bench {
namespace {

constexpr int kWindows = 25;
constexpr int64_t kRounds = 2'000'000;
constexpr size_t kFloats = size_t{24} << 20;  // size of each of four arrays: 96 MiB, beyond any cache

/// Returns the seconds of the fastest window in which every thread calls work(thread) once.
double best_seconds(int32_t threads, const std::function<void(int32_t)>& work) {
  double best = 1e30;
  for (int window = 0; window < kWindows; ++window) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int32_t t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
    for (std::thread& t : others) t.join();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

double flops(int32_t threads, double (*spend)(int64_t)) {
  std::vector<double> done(static_cast<size_t>(threads));
  const double seconds =
      best_seconds(threads, [&](int32_t t) { done[static_cast<size_t>(t)] = spend(kRounds); });
  double all = 0;
  for (const double each : done) all += each;
  return all / seconds;
}

double bandwidth(int32_t threads) {
  std::vector<float> g(kFloats, 1e-6f), w(kFloats, 1), m(kFloats, 1), v(kFloats, 1);
  std::vector<float> sums(static_cast<size_t>(threads) * 16);
  const size_t part = kFloats / static_cast<size_t>(threads);
  const double read = best_seconds(threads, [&](int32_t t) {
    const size_t begin = part * static_cast<size_t>(t);
    float lanes[64] = {};
    for (const std::vector<float>* x : {&g, &w, &m, &v})
      for (size_t i = begin; i + 64 <= begin + part; i += 64)
        for (size_t j = 0; j < 64; ++j) lanes[j] += (*x)[i + j];
    sums[static_cast<size_t>(t) * 16] = *std::max_element(lanes, lanes + 64);
  });
  const double update = best_seconds(threads, [&](int32_t t) {
    const size_t begin = part * static_cast<size_t>(t);
    float *gp = g.data(), *wp = w.data(), *mp = m.data(), *vp = v.data();
#pragma GCC ivdep
    for (size_t i = begin; i < begin + part; ++i) {
      wp[i] += gp[i];
      mp[i] += gp[i];
      vp[i] += gp[i];
    }
  });
  const double bytes = static_cast<double>(kFloats) * sizeof(float);
  return std::max(4 * bytes / read, 7 * bytes / update);
}

}  // namespace

double MachineLimits::step_seconds(const std::string& precision, double flops, int64_t parameters) const {
  constexpr double kOptimizerBytes = 28;
  return flops / (precision == "bf16" ? bf16_flops : fp32_flops) +
         kOptimizerBytes * static_cast<double>(parameters) / bytes_per_second;
}

MachineLimits measure_limits(int32_t threads) {
  MachineLimits limits{flops(threads, spend_fp32), flops(threads, spend_bf16), bandwidth(threads)};
  limits.bf16_flops = std::max(limits.bf16_flops, limits.fp32_flops);
  return limits;
}

}  // namespace hawser::bench
