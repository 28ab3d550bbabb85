// ShardIndex: lists what one rank wrote into a checkpoint that is being saved. Ranks send it as text to the
// rank that finishes the save. The text crosses processes, so it is parsed as strictly as a manifest.
//
//   {"format": "hawser-shard-index", "rank": 1, "world": 4, "files": {..}, "tensors": {..}}   (stored_json.h)
// A tensor without pieces means that the rank knows the tensor and holds none of it, so that a tensor which
// no rank wrote is detected.
#pragma once

#include <string>

#include "engine/checkpoint/stored_tensor.h"

namespace hawser::checkpoint {

struct ShardIndex {
  int rank = 0, world = 1;
  StoredFiles files;
  StoredTensors tensors;
};

/// Throws kInvalidArgument for names that are not valid UTF-8.
std::string index_text(const ShardIndex& index);

/// Parses the index of rank `rank` of `world`. Throws kCheckpointCorrupt if damaged, kInvalidArgument if it
/// belongs to another rank or world.
ShardIndex parse_index(const std::string& text, int rank, int world);

/// Merges the index with those of earlier ranks. Throws kInvalidArgument for a file that another rank also
/// wrote, and for a tensor with another dtype or shape there.
void merge_index(ShardIndex index, StoredFiles* files, StoredTensors* tensors);

}  // namespace hawser::checkpoint
