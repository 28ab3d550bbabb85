// Checkpoints: a directory of safetensors shards plus manifest.json (design: the manifest is written last,
// the directory renamed into place, digests taken before the write). No layout in it: tensors by global name.
//
// What damage is: what was read is not what a save wrote. A digest that does not match; a file that is cut
// short, too long, missing though the manifest lists it, or of another kind (a link, a FIFO); a manifest or
// header whose text is not that of one. All that is kCheckpointCorrupt, and nothing else is damage: what
// cannot be read now (kIo, kPermission, kOutOfMemory), and what this engine has no use for
// (kCheckpointIncompatible: of a newer version, of another model), may be a whole checkpoint. Where the
// newest is wanted, damaged ones are passed over; every other error is raised, names the file, and leaves all
// as it is.
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

/// What a checkpoint holds besides tensors. JSON texts are stored as objects in the manifest.
struct Description {
  int64_t step = 0;
  std::string state_json = "{}";       ///< trainer state: data cursor, optimizer count, guard window, ...
  std::string config_json = "{}";      ///< what was set (ConfigTree::to_json)
  std::string vocabulary_json = "{}";  ///< Vocabulary::to_json, or {}
  std::string data_json = "{}";        ///< Dataset::fingerprint, or {}
  std::string model_json = "{}";  ///< resolved model section; a checkpoint of another model is refused by it
  /// "config.json", "tokenizer.json", ...: kept in extra/, unread; plain names.
  std::map<std::string, std::string> extra_files;
};

/// Writes `path` (must not exist; its parent is made). Either the whole checkpoint is there afterwards,
/// fsynced, or an Error is thrown (kIo, kAlreadyExists, kPermission, kInvalidArgument) and nothing is left.
/// Shards of at most shard_bytes unless one tensor alone has more. A name step-N is also put into the
/// parent's hint file LATEST. For one rank that has every tensor whole; many save together through
/// sharded_save.h.
void save(const std::string& path, const std::vector<TensorView>& tensors, const Description& description,
          int64_t shard_bytes = int64_t{4} << 30);

/// An open checkpoint. Opening reads and checks manifest (every element stored exactly once), headers (sizes,
/// overlaps, names) and extra files; digests of tensors are checked by read and verify. Const members may run
/// beside each other.
class Reader {
 public:
  static std::unique_ptr<Reader> open(const std::string& path);
  virtual ~Reader() = default;
  virtual const Description& description() const = 0;
  struct Entry {
    DType dtype;
    std::vector<int64_t> shape;
  };
  virtual const std::map<std::string, Entry>& tensors() const = 0;
  /// Reads the whole tensor into dst (bytes = size of its dtype times its elements). Throws kNotFound,
  /// kCheckpointIncompatible when `bytes` is not that, kCheckpointCorrupt when its digest does not fit.
  virtual void read(const std::string& name, void* dst, int64_t bytes) const = 0;
  /// Reads elements [begin, end) of the row-major tensor into dst, wherever their pieces lie: what any rank
  /// of any layout holds of it. Pieces read from end to end are checked against their digests; of the others,
  /// which would have to be read whole for that, nothing is (verify checks all). Throws as read, and
  /// kOutOfRange for what is no range of the tensor's elements.
  virtual void read_range(const std::string& name, int64_t begin, int64_t end, void* dst,
                          int64_t bytes) const = 0;
  /// Checks every digest; throws kCheckpointCorrupt naming file, tensor and byte range. Many may share the
  /// work: the files are dealt out, by their bytes, to `parts`, of which this call reads one.
  virtual void verify(int64_t part = 0, int64_t parts = 1) const = 0;
};

bool is_checkpoint(const std::string& path);  ///< has a manifest.json

/// Whether the error, thrown by a Reader, says that the checkpoint is damaged (see above).
bool is_damage(const Error& error);

/// A checkpoint that was passed over, by its name in the folder, and why.
struct Damaged {
  std::string name, problem;
};

struct Candidate {
  int64_t step = 0;
  std::string name;  ///< "step-20" or "best"
};

/// What a run may go on from, newest first: every step-* of `folder`, and its `best` by the step that its
/// manifest names. No digest of a tensor is checked here. A step-* without a manifest, and a `best` whose
/// manifest is damaged, are none: they are added to *damaged. Throws what keeps them from being read.
std::vector<Candidate> candidates(const std::string& folder, std::vector<Damaged>* damaged);

/// Path of the newest candidate that verifies, or "". Damaged ones are passed over and named in *damaged (may
/// be null). Throws what keeps one from being read: it may be whole, and older ones are no answer then.
std::string newest_valid(const std::string& folder, std::vector<Damaged>* damaged);

/// Throws, for a folder without a checkpoint that is whole: kNotFound if nothing was damaged, else
/// kCheckpointCorrupt with what was.
[[noreturn]] void fail_none_whole(const std::string& folder, const std::vector<Damaged>& damaged);

/// Removes all but the newest keep_last step-* of `folder`, but never the newest that verifies, and temporary
/// directories that dead saves left behind. keep_last <= 0: all stay. Nothing goes where none verifies, or
/// where one cannot be read, which is thrown.
void retain(const std::string& folder, int64_t keep_last);

/// Removes what dead saves left behind in `folder`: temporary directories that no living save holds. A
/// folder that is not there is swept already.
void sweep(const std::string& folder);

/// Puts the directory `next` where `path` is; what was there before goes. One exchange of names where the
/// file system has that, so that `path` is always one or the other. Durable afterwards. Throws kIo,
/// kPermission.
void put_in_place(const std::string& next, const std::string& path);

/// JSON about a checkpoint: format, step, parameters, files (name, bytes, digest, pieces of tensors in it),
/// tensors (name, dtype, shape, and of each piece its range of elements and its file), sizes, config.
std::string inspect(const std::string& path);

}  // namespace hawser::checkpoint
