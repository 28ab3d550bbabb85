// ShardFile: one file of tensors in an open checkpoint, checked against the manifest. Its header must list
// exactly the pieces that the manifest places in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/stored_tensor.h"

namespace hawser::checkpoint {

/// Refers to a piece of a manifest, which must outlive the reference.
struct PieceRef {
  const std::string* name;
  const StoredTensor* tensor;
  const StoredPiece* piece;
};

/// Throws kCheckpointCorrupt: the digest of this piece, in the file at `path`, does not match.
[[noreturn]] void fail_damaged(const std::string& path, const PieceRef& ref);

/// Const members may run in parallel. Borrows the folder.
class ShardFile {
 public:
  /// Throws kCheckpointCorrupt, with the cause, for a file that is missing, has a damaged header, another
  /// size or other pieces. A checkpoint may have more files than a process may have open: without keep_open
  /// the file is reopened for each use.
  ShardFile(const Folder& folder, const std::string& name, const StoredFile& stored,
            std::vector<PieceRef> pieces, bool keep_open);

  std::string path() const { return folder_->path_of(name_); }
  void read(int64_t offset, void* dst, int64_t bytes) const;
  /// Verifies the digest of every piece and of the file in one pass. Throws kCheckpointCorrupt naming piece
  /// and bytes.
  void verify() const;

 private:
  void check_pieces(const SafetensorsFile& file) const;
  void verify(const File& file) const;

  const Folder* folder_;
  std::string name_;
  StoredFile stored_;
  std::vector<PieceRef> pieces_;  ///< by offset; with the header they fill the file
  int64_t data_begin_ = 0;
  std::optional<File> open_;
};

}  // namespace hawser::checkpoint
