// The mesh section of the config.
#pragma once

#include <cstdint>

namespace hawser::mesh {

/// Degrees of the axes, each at least 1. The world size is their product.
struct MeshConfig {
  int64_t dp_replicate = 1;
  int64_t dp_shard = 1;

  /// Number of ranks: the world.
  int64_t world() const { return dp(); }
  /// Number of ranks that read different rows of a global batch.
  int64_t dp() const { return dp_replicate * dp_shard; }
};

}  // namespace hawser::mesh
