// Cluster: a description of devices and their network, for which the time of a plan can be predicted: the
// rates of a device's kernels, of each level of the network, and of the links to the host and to disk. It is
// read from JSON text in which every number has its source (README.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/cluster/stack.h"
#include "engine/device/device.h"
#include "engine/parallel/route.h"

namespace hawser::cluster {

/// The measured rate of a matrix product.
struct MatmulPoint {
  DType type = DType::kBf16;
  int64_t m = 0, n = 0, k = 0;
  double flops_per_second = 0;
};

/// The rate of attention, measured or known from elsewhere.
struct AttentionPoint {
  DType type = DType::kBf16;
  int64_t length = 0, head_dim = 0;
  double flops_per_second = 0;  ///< masked pairs do not count
};

/// The rate of products if no point was measured: the peak times `efficiency`, times the part of the device
/// that is used (used_tiles in kernel_seconds.h). tile_m 0: that part is 1.
struct MatmulModel {
  double efficiency = 0;
  int64_t tile_m = 0, tile_n = 0, units = 0;  ///< one unit (multiprocessor) computes one tile at a time
};

struct DeviceRates {
  device::Kind kind = device::Kind::kCuda;
  double memory_bytes = 0;             ///< bytes that one rank may use
  std::map<DType, double> peak_flops;  ///< per second; f32 always has a peak
  MatmulModel matmul;
  std::vector<MatmulPoint> matmul_points;
  std::vector<AttentionPoint> attention_forward, attention_backward;
  double bytes_per_second = 0;                         ///< peak of its memory
  double efficiency = 0;                               ///< the part of that peak that unlisted kernels reach
  std::map<std::string, double, std::less<>> kernels;  ///< bytes per second of kernels, by name
  double launch_seconds = 0;                           ///< the host's time to launch a kernel or a graph

  /// Returns the peak of the type, or that of f32 if the type has none.
  double peak(DType type) const;
};

/// A level of the network: ranks in blocks of `ranks` communicate over it if they share no smaller block.
struct NetworkLevel {
  std::string name;
  int64_t ranks = 0;                                      ///< 0 in the last level, which connects all ranks
  double bytes_per_second = 0;                            ///< that one rank sends while all ranks send
  double latency = 0;                                     ///< seconds of a collective's hop, or of a message
  std::map<std::string, double, std::less<>> efficiency;  ///< by operation (comm/ledger.h); others: 1
};

/// Rates of the host and the disk for one rank, per second. Plans that need a rate that is 0 (not stated) are
/// refused.
struct HostRates {
  double to_device = 0, from_device = 0;  ///< bytes
  double update = 0;                      ///< bytes of state that the processor updates
  double disk_read = 0, disk_write = 0;   ///< bytes
};

struct Cluster {
  std::string name;
  int64_t ranks = 0;  ///< number of devices; 0: as many as a config asks for
  DeviceRates device;
  std::vector<NetworkLevel> levels;
  HostRates host;
  Stack stack;  ///< another trainer, of which a step is predicted

  parallel::Topology topology() const;
};

/// Reads a cluster from JSON text. Throws kInvalidArgument; the message lists all problems, each with the
/// pointer of its field, and the details are {"problems": [...]}.
Cluster read_cluster(std::string_view json);

/// The names of the clusters in the library.
std::vector<std::string> cluster_names();
/// Returns the JSON text of one of them. Throws kNotFound, with a similar name or all names.
std::string_view cluster_json(std::string_view name);
/// Reads a cluster from `text`: JSON, or a name of cluster_names.
Cluster cluster_of(std::string_view text);

}  // namespace hawser::cluster
