// Kernel seconds: estimates how long kernels take on a device, from the rates in its description.
#pragma once

#include "engine/base/kernel_calls.h"
#include "engine/cluster/cluster.h"

namespace hawser::cluster {

/// Returns the FLOPs per second of a product m x n x k: those of the nearest measured point of its type (by
/// the logarithms of the ratios of the three sizes); without points, peak x efficiency x used_tiles.
double matmul_rate(const DeviceRates& device, DType type, int64_t m, int64_t n, int64_t k);

/// Returns the part of the device that a product uses: the part of its tiles that the result fills, times the
/// part of its waves that tiles fill (a wave: one tile for each unit). The better of the tile and its
/// transpose counts. Products with few tiles split k into pieces of at least 1024.
double used_tiles(const MatmulModel& model, int64_t m, int64_t n, int64_t k);

/// Seconds of one call of a class, if only its arithmetic, or only its memory traffic, took time.
struct CallSeconds {
  double arithmetic = 0, memory = 0;
};
CallSeconds call_seconds(const DeviceRates& device, const KernelCalls& calls);

/// Returns the seconds of all calls of a class on the device: for each call, the longer of arithmetic and
/// memory. `launched`: the host launches each call, so a call takes at least as long as a launch.
double seconds_of(const DeviceRates& device, const KernelCalls& calls, bool launched);

}  // namespace hawser::cluster
