// MeshConfig: the mesh section of the config.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::mesh {

/// How context-parallel ranks compute attention (parallel/context_parallel.h). Numbered as in the schema.
enum class ContextMode { kRing, kUlysses, kGather };
/// The names of its values in configs.
inline constexpr const char* kContextModeNames[] = {"ring", "ulysses", "gather"};

/// Degrees of the axes; each is at least 1. The world size is the product of all except ep.
struct MeshConfig {
  int64_t pp = 1;  ///< stages of the pipeline
  int64_t dp_replicate = 1;
  int64_t dp_shard = 1;
  int64_t cp = 1;
  ContextMode cp_mode = ContextMode::kRing;
  int64_t tp = 1;
  /// Ranks of tp also divide the rows of the residual stream.
  bool sequence_parallel = false;
  int64_t ep = 1;  ///< ranks that divide experts; they are ranks of the other axes of a stage
  /// Number of chunks of rows in which ranks of tp sum products; the next chunk is computed meanwhile.
  int64_t tp_chunks = 1;

  /// Number of ranks: the world.
  int64_t world() const { return pp * dp() * cp * tp; }
  /// Number of ranks that read different rows of a global batch.
  int64_t dp() const { return dp_replicate * dp_shard; }
  /// Number of ranks that share a copy of the model and the rows that it reads.
  int64_t model_ranks() const { return pp * cp * tp; }
  /// True if several ranks could divide the state of the same parameters.
  bool can_shard() const { return dp_shard * cp > 1; }
  /// Returns this mesh with `ranks` ranks that read different rows: all replicas if they are now, the same
  /// number of shards if there are replicas of them and they divide `ranks`, otherwise all shards.
  MeshConfig with_data_ranks(int64_t ranks) const;
};
/// Calls visit(key, member) for each key of the config's mesh section.
void each_key(MeshConfig& m, auto&& visit) {
  visit("pp", m.pp);
  visit("dp_replicate", m.dp_replicate);
  visit("dp_shard", m.dp_shard);
  visit("cp", m.cp);
  visit("cp_mode", m.cp_mode);
  visit("tp", m.tp);
  visit("sequence_parallel", m.sequence_parallel);
  visit("ep", m.ep);
  visit("tp_chunks", m.tp_chunks);
}

/// "pp 2 x dp_replicate 2 x dp_shard 3 x cp 2 x tp 4"; model axes appear only if they are above 1.
std::string degrees_text(const MeshConfig& mesh);
/// "/mesh/cp x /mesh/tp": the axes above 1 among those of model_ranks.
std::string model_axes(const MeshConfig& mesh);

}  // namespace hawser::mesh
