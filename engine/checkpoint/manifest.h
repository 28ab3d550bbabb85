// Manifest: manifest.json lists the contents of a checkpoint, with a digest of every file, of every piece of
// a tensor and of itself. It does not depend on the layout of ranks: pieces are in global coordinates.
//
//   {"format": "hawser-checkpoint", "version": 1, "step": 100,
//    "state": {..}, "config": {..}, "vocabulary": {..}, "data": {..}, "model": {..},
//    "base": {..},                              only for an adapter's checkpoint without its base
//    "files": {..}, "tensors": {..},            see stored_json.h
//    "manifest_digest": ".."}
// Keys are sorted, except the last. The last line is the digest of all bytes before it. In version 1 each
// tensor is one piece; version 2 allows several pieces, version 3 rectangular pieces, version 4 a base stored
// elsewhere. A checkpoint is written as the lowest version that can express it, so that an older Hawser can
// read it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/stored_json.h"
#include "engine/checkpoint/stored_tensor.h"

namespace hawser::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr int64_t kManifestVersion = 4;               ///< newest readable version
inline constexpr int64_t kMaxExtraBytes = int64_t{1} << 30;  ///< maximum total of all extra files

struct Manifest {
  Description description;  ///< extra_files: names only, contents empty
  StoredFiles files;
  StoredTensors tensors;
  std::string digest;  ///< digest of the manifest itself; "" until it is written

  int64_t version() const;  ///< the lowest version that can express it
};

/// Throws kInvalidArgument if a JSON text of the description is not an object.
std::string manifest_text(const Manifest& manifest);

/// Parses a manifest. Throws kCheckpointCorrupt for anything that manifest_text would not write, such as
/// pieces with gaps or overlaps (names tensor and elements); kCheckpointIncompatible for a newer version;
/// kOutOfMemory if it does not fit in memory, which is the only limit on its size. `where` is the file, for
/// messages.
Manifest parse_manifest(const std::string& text, const std::string& where);
/// Parses the manifest.json of a folder, with the same errors.
Manifest read_manifest(const Folder& folder);

/// Parses the JSON object of a manifest or an index after checking that memory suffices. Throws
/// kCheckpointCorrupt if it is not a JSON object, kOutOfMemory (needed, available).
Json parse_within_memory(const std::string& text, const std::string& where);

}  // namespace hawser::checkpoint
