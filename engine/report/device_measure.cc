// Measures the limits of this machine with the engine's own kernels. MFU and benchmark runs are compared with
// them.
#include <algorithm>
#include <chrono>
#include <functional>

#include "engine/base/interrupt.h"
#include "engine/base/json.h"
#include "engine/base/philox.h"
#include "engine/device/arena.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/report/device_report.h"
#include "kernels/include/levels.h"
#include "kernels/include/table.h"

namespace hawser::train {
namespace {

constexpr int64_t kSide = 768;  // side of a square product that stays in the L2 caches when blocked
constexpr int64_t kRandomValues = 1 << 15;  // number of distinct random values
constexpr int64_t kCopyBytes = 64 << 20;    // larger than any cache

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Returns the shortest of several runs (at least three, for `budget` seconds), because other programs may
/// use the machine.
double best_of(double budget, const std::function<void()>& work) {
  double best = seconds_of(work), spent = best;
  for (int runs = 1; runs < 3 || spent < budget; ++runs) {
    check_interrupt();
    const double s = seconds_of(work);
    best = std::min(best, s);
    spent += s;
  }
  return best;
}

double matmul_flops(DType type, double budget, const kernels::KernelTable& kernels, Stream& stream) {
  kernels::Matmul m;
  m.a_type = m.b_type = type;
  m.m = m.n = m.k = m.lda = m.ldb = m.ldc = kSide;
  m.b_transposed = true;
  const int64_t operand = kSide * kSide * 4;
  const auto arena =
      device::Arena::create(3 * operand + kernels.matmul_workspace_bytes(m, stream.num_workers));
  // Random values in both data types: zeros would make the machine look faster.
  auto* const random = reinterpret_cast<uint16_t*>(arena->data());
  for (int64_t i = 0; i < kRandomValues; i += 4) {
    const PhiloxBlock words = philox(1, static_cast<uint64_t>(i), 0);
    for (int j = 0; j < 4; ++j) random[i + j] = static_cast<uint16_t>(0x3F00u | (words.v[j] & 0x80FFu));
  }
  for (int64_t at = kRandomValues * 2; at < 2 * operand; at += kRandomValues * 2)
    std::copy_n(arena->data(), std::min(kRandomValues * 2, 2 * operand - at), arena->data() + at);
  m.a = arena->data();
  m.b = arena->data() + operand;
  m.c = arena->data() + 2 * operand;
  m.workspace = arena->data() + 3 * operand;
  const double s = best_of(budget, [&] { kernels.matmul(m, stream); });
  return 2.0 * kSide * kSide * kSide / s;
}

/// y = a + b: two reads and a write.
double bandwidth_gbs(double budget, const kernels::KernelTable& kernels, Stream& stream) {
  const auto arena = device::Arena::create(3 * kCopyBytes);
  auto* const a = reinterpret_cast<float*>(arena->data());
  const int64_t n = kCopyBytes / 4;
  std::fill_n(a, 3 * n, 1.0f);  // untouched pages all map to one page of zeros, which stays in cache
  const double s = best_of(budget, [&] { kernels.add({a, a + n, a + 2 * n, n}, stream); });
  return 3.0 * static_cast<double>(kCopyBytes) / s * 1e-9;
}

}  // namespace

std::string device_measure_json(int32_t threads, double seconds) {
  const double budget = (seconds > 0 ? seconds : 0.5) / 3;
  device::ThreadPool pool(threads > 0 ? threads : device::default_threads());
  const kernels::KernelTable& kernels = kernels::cpu_kernels(kernels::best_cpu_level());
  const OrderedJson json = {
      {"name", kernels::cpu_name()},
      {"threads", pool.threads()},
      {"level", kernels.name},
      {"fp32_gflops", 1e-9 * matmul_flops(DType::kF32, budget, kernels, pool.stream())},
      {"bf16_gflops", 1e-9 * matmul_flops(DType::kBf16, budget, kernels, pool.stream())},
      {"bandwidth_gbs", bandwidth_gbs(budget, kernels, pool.stream())}};
  return json.dump();
}

double device_peak_flops(int32_t threads, DType type, double seconds) {
  device::ThreadPool pool(threads > 0 ? threads : device::default_threads());
  const kernels::KernelTable& kernels = kernels::cpu_kernels(kernels::best_cpu_level());
  return matmul_flops(type, seconds > 0 ? seconds : 0.1, kernels, pool.stream());
}

}  // namespace hawser::train
