// Saving by many ranks, threads of one process or processes with a common file system. One rank opens the
// save and tells the others its folder; each writes its pieces into files of its own, all at the same time;
// one gathers what they report and finishes. How the ranks talk is theirs: nothing here communicates.
//
//   rank 0:      ShardedSave save(path);  folder = save.folder();       then all learn `folder`
//   every rank:  index = write_shard(folder, rank, world, pieces, shard_bytes);
//   rank 0:      gathers the indexes;  save.finish(indexes, description);
//
// Until finish has returned there is no checkpoint at `path`, and what was there before is not touched. When
// a rank fails, all must stop writing; the ShardedSave then goes, and the temporary folder with it. save
// (checkpoint.h) is this with one rank: there is one way in which checkpoints are written.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/temporary_folder.h"

namespace hawser::checkpoint {

/// Elements [begin, end) of the row-major tensor of `shape`; borrowed for the call.
struct PieceView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  ///< of the whole tensor
  int64_t begin = 0, end = 0;
  const void* data = nullptr;  ///< element `begin`; may be null where begin = end
};

/// How far a save is, for other threads to watch, and their wish that it end. Thread-safe.
class SaveProgress {
 public:
  int64_t bytes_written() const { return written_.load(std::memory_order_relaxed); }
  /// The save ends at its next chunk with kCancelled, unless it is published already.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  /// The writer's side. Throws kCancelled.
  void add(int64_t bytes) { written_.fetch_add(bytes, std::memory_order_relaxed); }
  void check() const;

 private:
  std::atomic<int64_t> written_{0};
  std::atomic<bool> cancelled_{false};
};

/// A save under way, owned by one rank; not thread-safe. It is an object and not a name because it holds the
/// lock that tells a living save from what a killed one left behind (retain sweeps that).
class ShardedSave {
 public:
  /// Makes a temporary folder beside `path`, which must not exist; folders above it are made. Throws
  /// kAlreadyExists, kPermission, kIo, kInvalidArgument (no name at the end of the path).
  explicit ShardedSave(const std::string& path);
  /// Cancels what was not finished: removes the temporary folder, whatever is still of it. No rank may still
  /// be in write_shard; its files could stay until the next retain.
  ~ShardedSave() = default;

  /// For write_shard on all ranks; as relative as `path` was.
  const std::string& folder() const { return temporary_.folder().path(); }

  /// indexes[r]: what write_shard returned on rank r. Checks that every tensor is there exactly once and that
  /// every file is, writes extra files and, last, the manifest, and renames the folder to the path. A name
  /// step-N is also put into the parent's hint file LATEST. Call it once. `progress` may be null.
  /// Throws kInvalidArgument (gaps and overlaps, with tensor and elements; ranks that differ in dtype or
  /// shape; a description that cannot be stored), kCheckpointCorrupt (a damaged index), kIo, kAlreadyExists,
  /// kPermission; nothing is then at the path.
  void finish(const std::vector<std::string>& indexes, const Description& description,
              const SaveProgress* progress = nullptr);

 private:
  std::string path_;
  TemporaryFolder temporary_;
  bool finished_ = false;
};

/// Writes the pieces of one rank into files that no other rank writes, of at most shard_bytes unless one
/// piece alone has more, flushed to disk. It takes three blocks of memory (BlockWriter) and a thread, which
/// writes while the caller digests. Pieces of one tensor may be many and in any order; empty ones are
/// allowed (of a tensor without elements, exactly one rank gives a piece). Ranks may run at the same time;
/// each calls once. Returns the index for ShardedSave::finish: some 150 bytes for each piece. Throws
/// kInvalidArgument (rank, range, shape or name that cannot be; two dtypes or shapes of one tensor),
/// kNotFound where `folder` is not there, kIo, kPermission. `progress` may be null; it counts the bytes of
/// tensors, and its cancel throws kCancelled.
std::string write_shard(const std::string& folder, int rank, int world, const std::vector<PieceView>& pieces,
                        int64_t shard_bytes, SaveProgress* progress = nullptr);

/// Throws kInvalidArgument for a description that no checkpoint can hold: sections that are not JSON objects,
/// a negative step, names or sizes of extra files. To find that before the tensors are written.
void check_description(const Description& description);

}  // namespace hawser::checkpoint
