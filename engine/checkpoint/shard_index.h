// What one rank wrote into a checkpoint that is being saved: the text that ranks hand to the one that
// finishes the save. It crosses processes, so it is parsed as strictly as a manifest.
//
//   {"format": "hawser-shard-index", "rank": 1, "world": 4, "files": {..}, "tensors": {..}}   (stored_json.h)
// A tensor without pieces says that the rank knows of it and holds none of it, so that a tensor which nobody
// wrote is noticed.
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

/// The index of rank `rank` of `world`. Throws kCheckpointCorrupt for a damaged one, kInvalidArgument for
/// that of another rank or world.
ShardIndex parse_index(const std::string& text, int rank, int world);

/// Adds the index to what is known of the ranks before. Throws kInvalidArgument for a file that another rank
/// wrote as well, and for a tensor that has another dtype or shape there.
void merge_index(ShardIndex index, StoredFiles* files, StoredTensors* tensors);

}  // namespace hawser::checkpoint
