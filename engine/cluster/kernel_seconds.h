// Kernel seconds: how long the kernels of a device take, by its rates.
#pragma once

#include "engine/base/kernel_calls.h"
#include "engine/cluster/cluster.h"

namespace hawser::cluster {

/// The FLOPs per second of a product m x n x k: those of the nearest measured point of its type (by the sum
/// of the ratios of the three sizes); without points, peak x efficiency x used tiles.
double matmul_rate(const DeviceRates& device, DType type, int64_t m, int64_t n, int64_t k);

/// The part of the device that a product uses: of the tiles of its result that all units compute in whole
/// waves. The tile lies either way. Products of few tiles split k, in pieces of at least 1024.
double used_tiles(const MatmulModel& model, int64_t m, int64_t n, int64_t k);

/// Seconds of all calls of a class on the device: the longer of arithmetic and memory. `launched`: the host
/// launches each, and the device waits for it where a kernel is shorter.
double seconds_of(const DeviceRates& device, const KernelCalls& calls, bool launched);

}  // namespace hawser::cluster
