// ShardedSave: a save by several ranks, which are threads of one process or processes with a common file
// system. One rank opens the save and sends its folder to the others. Each rank writes its pieces into files
// of its own, in parallel. One rank gathers the indexes and finishes. The callers exchange folder and
// indexes; nothing here communicates.
//
//   rank 0:      ShardedSave save(path);  folder = save.folder();       then broadcasts `folder`
//   every rank:  index = write_shard(folder, rank, world, pieces, shard_bytes);
//   rank 0:      gathers the indexes;  save.finish(indexes, description);
//
// Until finish has returned there is no checkpoint at `path`, and what was there before is untouched. If a
// rank fails, all must stop writing; destroying the ShardedSave removes the temporary folder. save
// (checkpoint.h) does this with one rank, so there is only one way of writing checkpoints.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/temporary_folder.h"

namespace hawser::checkpoint {

/// Elements [begin, end) of the row-major tensor of `shape`. With rows > 1 a rectangle: [begin, end) are its
/// columns in the first row, and it has the same columns of `rows` consecutive rows (StoredPiece). Borrowed
/// for the call.
struct PieceView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  ///< shape of the whole tensor
  int64_t begin = 0, end = 0;
  const void* data = nullptr;  ///< element `begin`, followed by the others; may be null if begin == end
  int64_t rows = 1;
  /// Instead of `data`: copies bytes [first, first + bytes) of the piece to `to`.
  std::function<void(int64_t first, void* to, int64_t bytes)> read = {};
  bool lasting = false;  ///< `read` gives the same bytes until the save has ended

  int64_t bytes() const { return (end - begin) * rows * dtype_bytes(dtype); }
};

/// The progress of a save and a request to cancel it, shared between threads. Thread-safe.
class SaveProgress {
 public:
  int64_t bytes_written() const { return written_.load(std::memory_order_relaxed); }
  /// Ends the save at its next chunk with kCancelled, unless it is already published.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  /// Called by the writer. Throws kCancelled.
  void add(int64_t bytes) { written_.fetch_add(bytes, std::memory_order_relaxed); }
  void check() const;

 private:
  std::atomic<int64_t> written_{0};
  std::atomic<bool> cancelled_{false};
};

/// A save in progress, owned by one rank; not thread-safe. It is an object because it holds the lock that
/// distinguishes a live save from the remains of a killed one (which retain removes).
class ShardedSave {
 public:
  /// Creates a temporary folder next to `path`, which must not exist, and its parents. Throws kAlreadyExists,
  /// kPermission, kIo, kInvalidArgument (no name at the end of the path).
  explicit ShardedSave(const std::string& path);
  /// Cancels an unfinished save: removes the temporary folder. No rank may still be in write_shard, whose
  /// files could otherwise remain until the next retain.
  ~ShardedSave() = default;

  /// Folder to pass to write_shard on all ranks; relative if `path` was.
  const std::string& folder() const { return temporary_.folder().path(); }

  /// indexes[r] is the result of write_shard on rank r. Checks that every tensor is stored exactly once and
  /// that every file exists, writes extra files and finally the manifest, and renames the folder to the path.
  /// A name step-N is also written to the parent's hint file LATEST. Call it once. `progress` may be null.
  /// Throws kInvalidArgument (gaps and overlaps, with tensor and elements; ranks that differ in dtype or
  /// shape; a description that cannot be stored), kCheckpointCorrupt (a damaged index), kIo, kAlreadyExists,
  /// kPermission; then nothing is at the path.
  void finish(const std::vector<std::string>& indexes, const Description& description,
              const SaveProgress* progress = nullptr);

 private:
  std::string path_;
  TemporaryFolder temporary_;
  bool finished_ = false;
};

/// Writes the pieces of one rank into its own files, of at most shard_bytes unless a single piece is larger,
/// and flushes them to disk. Uses three blocks of memory (BlockWriter), one more for pieces without `data`,
/// and a thread that writes while the caller digests. A tensor may have many pieces in any order; empty ones
/// are allowed (for a tensor without elements, exactly one rank gives a piece). Ranks may run in parallel;
/// each calls once. Returns the index for ShardedSave::finish, some 150 bytes per piece. Throws
/// kInvalidArgument (impossible rank, range, shape or name; two dtypes or shapes of one tensor), kNotFound if
/// `folder` does not exist, kIo, kPermission. `progress` may be null; it counts tensor bytes, and cancelling
/// it throws kCancelled.
std::string write_shard(const std::string& folder, int rank, int world, const std::vector<PieceView>& pieces,
                        int64_t shard_bytes, SaveProgress* progress = nullptr);

/// Throws kInvalidArgument for a description that no checkpoint can hold: sections that are not JSON objects,
/// a negative step, names or sizes of extra files. Call it before the tensors are written.
void check_description(const Description& description);

}  // namespace hawser::checkpoint
