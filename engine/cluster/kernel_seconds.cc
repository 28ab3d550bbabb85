#include "engine/cluster/kernel_seconds.h"

#include <algorithm>
#include <cmath>

namespace hawser::cluster {
namespace {

double tiles_used(int64_t m, int64_t n, int64_t k, int64_t tile_m, int64_t tile_n, int64_t units) {
  constexpr int64_t kShortestSplit = 1024;
  const auto blocks = [](int64_t items, int64_t each) { return (items + each - 1) / each; };
  const int64_t tiles = blocks(m, tile_m) * blocks(n, tile_n);
  const int64_t splits = std::clamp<int64_t>(units / tiles, 1, std::max<int64_t>(1, k / kShortestSplit));
  const int64_t work = tiles * splits, waves = blocks(work, units);
  const double padding = static_cast<double>(m) * static_cast<double>(n) /
                         (static_cast<double>(tiles) * static_cast<double>(tile_m * tile_n));
  return padding * static_cast<double>(work) / static_cast<double>(waves * units);
}

/// Returns how far two sizes are apart: the logarithm of their ratio.
double distance(int64_t a, int64_t b) {
  return std::abs(
      std::log(static_cast<double>(std::max<int64_t>(a, 1)) / static_cast<double>(std::max<int64_t>(b, 1))));
}

/// Returns the rate of the nearest point. If there are no points of this type, uses another type, and scales
/// the rate by the ratio of the peaks.
double attention_rate(const DeviceRates& device, const std::vector<AttentionPoint>& points,
                      const KernelCalls& calls) {
  constexpr double kOtherType = 1e6;
  const AttentionPoint* best = nullptr;
  double least = 0;
  for (const AttentionPoint& p : points) {
    const double far = distance(p.length, calls.length) + distance(p.head_dim, calls.head_dim) +
                       (p.type == calls.type ? 0 : kOtherType);
    if (best == nullptr || far < least) best = &p, least = far;
  }
  if (best->type == calls.type) return best->flops_per_second;
  return best->flops_per_second / device.peak(best->type) * device.peak(calls.type);
}

double flops_rate(const DeviceRates& device, const KernelCalls& calls) {
  if (calls.length > 0) {
    const bool forward = calls.kernel.find("forward") != std::string_view::npos;
    return attention_rate(device, forward ? device.attention_forward : device.attention_backward, calls);
  }
  return matmul_rate(device, calls.type, calls.m, calls.n, calls.k);
}

double memory_rate(const DeviceRates& device, std::string_view kernel) {
  const auto own = device.kernels.find(kernel);
  return own != device.kernels.end() ? own->second : device.bytes_per_second * device.efficiency;
}

}  // namespace

double used_tiles(const MatmulModel& model, int64_t m, int64_t n, int64_t k) {
  if (model.tile_m == 0 || m <= 0 || n <= 0) return 1;
  return std::max(tiles_used(m, n, k, model.tile_m, model.tile_n, model.units),
                  tiles_used(m, n, k, model.tile_n, model.tile_m, model.units));
}

double matmul_rate(const DeviceRates& device, DType type, int64_t m, int64_t n, int64_t k) {
  const MatmulPoint* best = nullptr;
  double least = 0;
  for (const MatmulPoint& p : device.matmul_points) {
    if (p.type != type) continue;
    const double far = distance(p.m, m) + distance(p.n, n) + distance(p.k, k);
    if (best == nullptr || far < least) best = &p, least = far;
  }
  if (best != nullptr) return best->flops_per_second;
  return device.peak(type) * device.matmul.efficiency * used_tiles(device.matmul, m, n, k);
}

CallSeconds call_seconds(const DeviceRates& device, const KernelCalls& calls) {
  const auto count = static_cast<double>(std::max<int64_t>(calls.calls, 1));
  CallSeconds each;
  each.memory = calls.bytes / count / memory_rate(device, calls.kernel);
  if (calls.flops > 0) each.arithmetic = calls.flops / count / flops_rate(device, calls);
  return each;
}

double seconds_of(const DeviceRates& device, const KernelCalls& calls, bool launched) {
  const CallSeconds each = call_seconds(device, calls);
  return std::max({each.memory, each.arithmetic, launched ? device.launch_seconds : 0}) *
         static_cast<double>(std::max<int64_t>(calls.calls, 1));
}

}  // namespace hawser::cluster
