// manifest.json: what a checkpoint holds and where, with a digest of every file, of every tensor and of
// itself. No layout of ranks is in it: each stored piece of a tensor is a rectangle of global coordinates.
//
//   {"format": "hawser-checkpoint", "version": 1, "step": 100,
//    "state": {..}, "config": {..}, "vocabulary": {..}, "data": {..}, "model": {..},
//    "files": {"tensors-00001-of-00001.safetensors": {"bytes": 1000, "digest": "xxh3-128:.."},
//    "extra/x.json": ..}, "tensors": {"head.weight": {"dtype": "F32", "shape": [4, 2], "pieces": [{"begin":
//    [0, 0], "end": [4, 2],
//                "file": "..", "offset": 96, "bytes": 32, "digest": ".."}]}},
//    "manifest_digest": ".."}
// Keys are sorted, but for the last. Offsets count from the start of the file. The last line is the digest of
// all bytes before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/checkpoint/checkpoint.h"

namespace hawser::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kExtraFolder = "extra";
inline constexpr int64_t kManifestVersion = 1;
inline constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxExtraBytes = int64_t{1} << 30;  ///< of all carried files together

struct StoredFile {
  int64_t bytes = 0;
  std::string digest;
};

struct StoredTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string file;
  int64_t offset = 0, bytes = 0;
  std::string digest;
};

struct Manifest {
  Description description;  ///< extra_files: names only, contents empty
  std::map<std::string, StoredFile> files;
  std::map<std::string, StoredTensor> tensors;
};

/// Throws kInvalidArgument where a JSON text of the description is not an object.
std::string manifest_text(const Manifest& manifest);

/// Throws kCheckpointCorrupt for anything that is not as manifest_text writes it, kCheckpointIncompatible for
/// a newer version. `where`: the file, for messages.
Manifest parse_manifest(const std::string& text, const std::string& where);

}  // namespace hawser::checkpoint
