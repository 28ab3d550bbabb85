// Parallel config: settings of the strategies: how ranks divide a step, and what a step recomputes or moves
// away to save memory. Plain values; compose.h makes strategies from them. The schema
// (capi/schema/parallel.fbs) has the names of enums, which have the same numbers here. Each struct is
// followed by the rows of its section: each_key calls visit(key, member) for every key of the config.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/mesh/mesh_config.h"
#include "engine/nn/recompute_set.h"

namespace hawser::parallel {

enum class ReducePolicy { kPerStep, kPerMicroBatch };
enum class ReshardAfterForward { kFull, kKeep, kGroup };
enum class SumOrder { kRanks, kTree };
/// Records in which gradients of products' weights are sent (ZeRO++ qgZ).
enum class QuantizedGradients { kOff, kInt8, kInt4 };
/// Records in which weights of the blocks' linears are gathered (ZeRO++ qwZ).
enum class QuantizedWeights { kOff, kInt8 };
/// Transport of gradients and weights between devices.
enum class DeviceTransport { kAuto, kHost, kNccl };

/// Fields that have no effect at the stage keep their defaults.
struct ZeroConfig {
  int64_t stage =
      0;  ///< 0: plain data parallelism; 1: optimizer sharded; 2: and gradients; 3: and parameters
  ReducePolicy reduce = ReducePolicy::kPerStep;
  ReshardAfterForward reshard_after_forward = ReshardAfterForward::kFull;  ///< stage 3
  int64_t reshard_group = 0;             ///< kGroup: ranks of the secondary shard; divides dp_shard. Else 0
  int64_t prefetch = 1;                  ///< blocks gathered ahead (stage 3)
  DType gradient_type = DType::kF32;     ///< data type of gradients on the wire: f32 or bf16; sums are f32
  int64_t bucket_bytes = 25 << 20;       ///< stages 0-2
  int64_t first_bucket_bytes = 1 << 20;  ///< stages 0-2; at most bucket_bytes
  SumOrder sum_order = SumOrder::kRanks;
  QuantizedGradients quantized_gradients = QuantizedGradients::kOff;
  QuantizedWeights quantized_weights = QuantizedWeights::kOff;  ///< stage 3
};
void each_key(ZeroConfig& z, auto&& visit) {
  visit("stage", z.stage);
  visit("reduce", z.reduce);
  visit("reshard_after_forward", z.reshard_after_forward);
  visit("reshard_group", z.reshard_group);
  visit("prefetch", z.prefetch);
  visit("gradient_type", z.gradient_type);
  visit("bucket_bytes", z.bucket_bytes);
  visit("first_bucket_bytes", z.first_bucket_bytes);
  visit("sum_order", z.sum_order);
  visit("quantized_gradients", z.quantized_gradients);
  visit("quantized_weights", z.quantized_weights);
}

struct CommConfig {
  int64_t sum_group = 1;  ///< data-parallel ranks summed together first; divides dp
  double timeout_seconds = 600;
  double bandwidth_limit = 0;  ///< limits every transfer to this many bytes per second; 0: no limit
  DeviceTransport device_transport = DeviceTransport::kAuto;
};
void each_key(CommConfig& c, auto&& visit) {
  visit("sum_group", c.sum_group);
  visit("timeout_seconds", c.timeout_seconds);
  visit("bandwidth_limit", c.bandwidth_limit);
  visit("device_transport", c.device_transport);
}

/// The order in which the stages of a pipeline work; parallel/pipeline/schedule.h has a row for each.
enum class PipelineSchedule { kGpipe, k1F1B, kInterleaved, kZbH1, kZbv, kDualPipeV };

struct PipelineConfig {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t chunks = 1;           ///< model chunks on each rank
  int64_t group = 0;            ///< micro-batches that a chunk takes consecutively; 0: as many as stages
  std::vector<int64_t> layers;  ///< layers of each chunk, in the model's order; empty: balanced
};
void each_key(PipelineConfig& p, auto&& visit) {
  visit("schedule", p.schedule);
  visit("chunks", p.chunks);
  visit("group", p.group);
  visit("layers", p.layers);
}

/// Activations that a backward pass recomputes because they were not saved (parallel/recompute.h), and saved
/// activations that are compressed.
struct RecomputeConfig {
  nn::RecomputeSet remakes{};
  int64_t every = 1;  ///< blocks that are recomputed together
  nn::CompressSet compress{};
};

/// Where data go while the arena does not need them (parallel/offload.h).
enum class OffloadSpace { kOff, kHost, kDisk };
struct OffloadConfig {
  OffloadSpace activations = OffloadSpace::kOff;  ///< between forward and backward
  OffloadSpace optimizer = OffloadSpace::kOff;    ///< masters and moments, between steps
  OffloadSpace parameters = OffloadSpace::kOff;   ///< what products read, between uses
  OffloadSpace gradients = OffloadSpace::kOff;    ///< from their backward to the update; not kDisk
  std::string folder;                             ///< for kDisk
  int64_t prefetch = 1;
  /// The host's processor updates state that is in its memory (parallel/host_update.h).
  bool updates_on_host() const { return optimizer == OffloadSpace::kHost; }
};
void each_key(OffloadConfig& o, auto&& visit) {
  visit("activations", o.activations);
  visit("optimizer", o.optimizer);
  visit("parameters", o.parameters);
  visit("gradients", o.gradients);
  visit("folder", o.folder);
  visit("prefetch", o.prefetch);
}

/// The sections of a config that strategies read.
struct ParallelConfig {
  mesh::MeshConfig mesh;
  PipelineConfig pipeline;
  RecomputeConfig recompute;
  OffloadConfig offload;
  ZeroConfig zero;
  CommConfig comm;
};

}  // namespace hawser::parallel
