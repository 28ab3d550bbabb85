// Stored JSON: files and tensors in the form that the manifest and the ranks' indexes share.
//
//   files:   {"tensors-00001-of-00001.safetensors": {"bytes": 1000, "digest": "xxh3-128:.."}}
//   tensors: {"head.weight": {"dtype": "F32", "shape": [4, 2], "pieces": [PIECE, ..]}}
//   PIECE:   {"begin": [0, 0], "end": [4, 2], "file": "..", "offset": 96, "bytes": 32, "digest": ".."}
//        or  {"range": [3, 8],                "file": "..", "offset": 96, "bytes": 20, "digest": ".."}
// A piece is a rectangle of global coordinates (the whole tensor, or several rows of some columns of a
// matrix) or a range of its elements in row-major order. Offsets count from the start of the file.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/json_fwd.h"
#include "engine/checkpoint/stored_tensor.h"

namespace hawser::checkpoint {

inline constexpr const char* kExtraFolder = "extra";

/// True if `file` is "extra/<name>": an extra file, not one of tensors. `name` may be null.
bool is_extra_file(std::string_view file, std::string* name);

Json files_json(const StoredFiles& files);
Json tensors_json(const StoredTensors& tensors);

/// Both throw kCheckpointCorrupt, naming file or tensor, for anything that differs from the form above, and
/// for file names that lead out of the checkpoint. `where` names the source, for messages.
StoredFiles parse_files(const Json& json, const std::string& where);
/// Checks that pieces are in `files` and within their tensor, but not that they cover it (require_covered
/// does).
StoredTensors parse_tensors(const Json& json, const StoredFiles& files, const std::string& where);

}  // namespace hawser::checkpoint
