// WeightFiles: the safetensors files of a Hugging Face folder as one set of tensors: model.safetensors, or
// the files that model.safetensors.index.json names. The index is untrusted: its files must be plain names in
// the same folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"

namespace hawser::checkpoint::hf {

inline constexpr const char* kSingleName = "model.safetensors";
inline constexpr const char* kIndexName = "model.safetensors.index.json";
inline constexpr int64_t kMaxJsonBytes = int64_t{64} << 20;  ///< maximum size of an index
inline constexpr Links kLinks = Links::kFollow;              ///< files in the Hub's cache are links

struct WeightFiles {
  struct TensorLocation {
    size_t file = 0;
    const TensorInfo* info = nullptr;
  };
  std::vector<std::string> names;      ///< names of the files
  std::vector<SafetensorsFile> files;  ///< open, headers checked
  std::map<std::string, TensorLocation> tensors;
  bool sharded = false;
  std::string index_metadata;  ///< JSON object of the index's "metadata", or ""

  const SafetensorsFile& file_of(const TensorLocation& place) const { return files[place.file]; }
};

/// Throws kNotFound (no weights, a file of the index missing), kCheckpointCorrupt.
WeightFiles open_weight_files(const Folder& folder);

/// Returns the text of an index.
std::string index_text(const std::map<std::string, std::string>& weight_map, const std::string& metadata,
                       int64_t total_bytes);

}  // namespace hawser::checkpoint::hf
