// Cluster: the devices and networks that a plan can be foretold for, as numbers: what a device's kernels
// reach, what each level of the network carries, and the links to the host and to disk. It comes from a JSON
// text in which every number has its source (README.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/device/device.h"
#include "engine/parallel/route.h"

namespace hawser::cluster {

/// A product that was measured.
struct MatmulPoint {
  DType type = DType::kBf16;
  int64_t m = 0, n = 0, k = 0;
  double flops_per_second = 0;
};

/// Attention that was measured, or whose rate is known.
struct AttentionPoint {
  DType type = DType::kBf16;
  int64_t length = 0, head_dim = 0;
  double flops_per_second = 0;  ///< without masked pairs
};

/// Products without a measured point: the peak times `efficiency`, times the part of the last wave of tiles
/// that is used. tile_m 0: no waves.
struct MatmulModel {
  double efficiency = 0;
  int64_t tile_m = 0, tile_n = 0, units = 0;  ///< one unit (multiprocessor) computes one tile at a time
};

struct DeviceRates {
  device::Kind kind = device::Kind::kCuda;
  double memory_bytes = 0;             ///< that one rank may use
  std::map<DType, double> peak_flops;  ///< per second; f32 is always there
  MatmulModel matmul;
  std::vector<MatmulPoint> matmul_points;
  std::vector<AttentionPoint> attention_forward, attention_backward;
  double bytes_per_second = 0;  ///< peak of its memory
  double efficiency = 0;        ///< the part of it that kernels reach which are not listed
  std::map<std::string, double, std::less<>> kernels;  ///< bytes per second of kernels, by name
  double launch_seconds = 0;                           ///< of a kernel or of a graph, on the host

  /// The peak of the type; of f32 if it has none of its own.
  double peak(DType type) const;
};

/// A level of the network: ranks in blocks of `ranks` communicate over it if they share no smaller block.
struct NetworkLevel {
  std::string name;
  int64_t ranks = 0;                                      ///< 0: all, of the last level
  double bytes_per_second = 0;                            ///< one way, of one rank, while all ranks send
  double latency = 0;                                     ///< seconds of a collective's hop, or of a message
  std::map<std::string, double, std::less<>> efficiency;  ///< by operation (comm/ledger.h); others: 1
};

/// Rates of the host and the disk, per second and rank. 0: not stated, so plans that need them are refused.
struct HostRates {
  double to_device = 0, from_device = 0;  ///< bytes
  double update = 0;                      ///< bytes of state that the processor updates
  double disk_read = 0, disk_write = 0;   ///< bytes
};

struct Cluster {
  std::string name;
  int64_t ranks = 0;  ///< how many devices there are; 0: as many as a config asks for
  DeviceRates device;
  std::vector<NetworkLevel> levels;
  HostRates host;

  parallel::Topology topology() const;
};

/// Reads a cluster from JSON text. Throws kInvalidArgument with all problems, each with the pointer of its
/// field, and with {"problems": [...]} as details.
Cluster read_cluster(std::string_view json);

/// The names of the clusters in the library.
std::vector<std::string> cluster_names();
/// The JSON text of one of them. Throws kNotFound, with the names.
std::string_view cluster_json(std::string_view name);
/// Reads `text`: JSON, or a name of cluster_names.
Cluster cluster_of(std::string_view text);

}  // namespace hawser::cluster
