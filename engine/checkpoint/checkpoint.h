// Checkpoints: a directory of safetensors shards and manifest.json. Digests are taken before the write, the
// manifest is written last, and the directory is renamed into place. Tensors have global names; no layout of
// ranks is stored.
//
// A checkpoint is damaged (kCheckpointCorrupt) if it is not what a save wrote: a digest does not match; a
// file is too short, too long, missing although the manifest lists it, or of another kind (a link, a FIFO); a
// manifest or header does not parse. Nothing else is damage. A checkpoint may be valid even if it cannot be
// read now (kIo, kPermission, kOutOfMemory) or cannot be used by this engine (kCheckpointIncompatible: a
// newer version, another model). A search for the newest checkpoint skips damaged ones. Every other error
// ends the search, names the file and changes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/error.h"

namespace hawser::checkpoint {

/// A tensor in memory to be saved; borrowed for the call.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

/// Describes a checkpoint's contents besides tensors. JSON texts are stored as objects in the manifest.
struct Description {
  int64_t step = 0;
  std::string state_json = "{}";       ///< trainer state: data cursor, optimizer count, guard window, ...
  std::string config_json = "{}";      ///< the config as set (ConfigTree::to_json)
  std::string vocabulary_json = "{}";  ///< Vocabulary::to_json, or {}
  std::string data_json = "{}";        ///< Dataset::fingerprint, or {}
  std::string model_json = "{}";       ///< resolved model section; used to refuse another model's checkpoint
  /// If an adapter's checkpoint leaves out its base weights: their location and their digests
  /// (assembly/base_weights.h); else {}.
  std::string base_json = "{}";
  /// Files that are stored in extra/ without being read: "config.json", "tokenizer.json", ...; plain names.
  std::map<std::string, std::string> extra_files;
};

/// Writes `path`, which must not exist, and creates its parents. Afterwards the complete checkpoint exists
/// and is durable, or an Error is thrown (kIo, kAlreadyExists, kPermission, kInvalidArgument) and nothing is
/// left. Shards have at most shard_bytes, unless a single tensor is larger. A name step-N is also written to
/// the parent's hint file LATEST. This function is for one rank that has every tensor in full; several ranks
/// save together through sharded_save.h.
void save(const std::string& path, const std::vector<TensorView>& tensors, const Description& description,
          int64_t shard_bytes = int64_t{4} << 30);

bool is_checkpoint(const std::string& path);  ///< has a manifest.json

/// True if an error thrown by a Reader means that the checkpoint is damaged (see above).
bool is_damage(const Error& error);

/// A checkpoint that was skipped: its name in the folder, and the reason.
struct Damaged {
  std::string name, problem;
};

struct Candidate {
  int64_t step = 0;
  std::string name;  ///< "step-20" or "best"
};

/// Returns the checkpoints that a run may resume from, newest first by the step in the manifest: every step-*
/// of `folder`, and `best`. Verifies no tensor digests. A step-* without a manifest, and a checkpoint with a
/// damaged manifest, go to *damaged instead. Throws if a manifest cannot be read.
std::vector<Candidate> candidates(const std::string& folder, std::vector<Damaged>* damaged);

/// Returns the path of the newest candidate that verifies, or "". Skips damaged candidates and adds them to
/// *damaged (may be null). Throws if one cannot be read: it may be valid, so returning an older one would be
/// wrong.
std::string newest_valid(const std::string& folder, std::vector<Damaged>* damaged);

/// Throws for a folder without a valid checkpoint: kNotFound if nothing was damaged, else kCheckpointCorrupt
/// with a list of the damage.
[[noreturn]] void fail_no_valid_checkpoint(const std::string& folder, const std::vector<Damaged>& damaged);

/// Removes all step-* of `folder` except the newest keep_last (keep_last <= 0: keeps all), and temporary
/// directories left by dead saves. Never removes the newest that verifies. If none verifies, removes nothing.
/// If one cannot be read, removes nothing and throws that error.
void retain(const std::string& folder, int64_t keep_last);

/// Removes the temporary directories in `folder` that no running save has locked. Does nothing if the folder
/// does not exist.
void sweep(const std::string& folder);

/// Replaces the directory at `path` by `next` and removes the old one. If the file system can exchange two
/// names, `path` exists at every moment, as the old or the new directory. Durable afterwards. Throws kIo,
/// kPermission.
void put_in_place(const std::string& next, const std::string& path);

/// Returns JSON about a checkpoint: format, step, parameters, files (name, bytes, digest, pieces of tensors
/// in it), tensors (name, dtype, shape, and for each piece its range of elements or rectangle, and its file),
/// sizes, config.
std::string inspect(const std::string& path);

}  // namespace hawser::checkpoint
