// Reader: opens a checkpoint. It reads the manifest, compares the header of every file with it, then reads
// the extra files. Tensors are assembled from their pieces with pread (a file truncated meanwhile gives an
// error, not a fault) and checked against the digests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/shard_file.h"

namespace hawser::checkpoint {

/// An open checkpoint. Opening checks the manifest (every element stored exactly once), headers (sizes,
/// overlaps, names) and extra files; read and verify check the digests of tensors. Const members may run in
/// parallel.
class Reader {
 public:
  static std::unique_ptr<Reader> open(const std::string& path);
  explicit Reader(const std::string& path);
  const std::string& path() const { return folder_.path(); }
  const Description& description() const { return manifest_.description; }
  /// Digest of the manifest, which has the digests of everything else.
  const std::string& digest() const { return manifest_.digest; }
  struct Entry {
    DType dtype;
    std::vector<int64_t> shape;
  };
  const std::map<std::string, Entry>& tensors() const { return entries_; }
  /// Reads the complete tensor into dst (bytes = its dtype's size times its elements). Throws kNotFound,
  /// kCheckpointIncompatible if `bytes` differs, kCheckpointCorrupt if its digest does not match.
  void read(const std::string& name, void* dst, int64_t bytes) const;
  /// Reads elements [begin, end) of the row-major tensor into dst, from the pieces that hold them, so a rank
  /// of any layout can read its part. A piece that is read in full is checked against its digest; a piece
  /// that is read in part is not (verify checks all). Throws like read, and kOutOfRange for a range outside
  /// the tensor.
  void read_range(const std::string& name, int64_t begin, int64_t end, void* dst, int64_t bytes) const;
  /// Checks every digest; throws kCheckpointCorrupt naming file, tensor and byte range. To share the work,
  /// each of `parts` callers checks one part of the files, of about equal size.
  void verify(int64_t part = 0, int64_t parts = 1) const;

 private:
  std::vector<std::string> share_of(int64_t part, int64_t parts) const;
  const StoredTensor& tensor_at(const std::string& name) const;
  void read_pieces(const std::string& name, const StoredTensor& tensor, int64_t begin, int64_t end,
                   void* dst) const;
  void read_rectangle(const PieceRef& ref, int64_t begin, int64_t end, char* dst) const;
  void read_extra(const std::string& name, const StoredFile& stored);

  Folder folder_;
  Manifest manifest_;
  std::map<std::string, ShardFile> files_;
  std::map<std::string, Entry> entries_;
  int64_t extra_bytes_ = 0;
};

}  // namespace hawser::checkpoint
