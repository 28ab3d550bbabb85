#include "engine/checkpoint/shard_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint {
namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;

int64_t bytes_of(const PieceRef& ref) { return ref.tensor->bytes_of(*ref.piece); }

}  // namespace

void fail_damaged(const std::string& path, const PieceRef& ref) {
  const StoredPiece& piece = *ref.piece;
  const int64_t end = piece.offset + bytes_of(ref);
  const std::string elements = place_text(*ref.tensor, piece);
  throw Error(
      Code::kCheckpointCorrupt,
      fmt::format(
          "{}: tensor {}{} (bytes {} to {}) is damaged: its digest differs from the manifest's; use an "
          "older checkpoint",
          path, in_quotes(*ref.name), elements, piece.offset, end),
      Json{{"begin", piece.offset}, {"end", end}}.dump());
}

ShardFile::ShardFile(const Folder& folder, const std::string& name, const StoredFile& stored,
                     std::vector<PieceRef> pieces, bool keep_open)
    : folder_(&folder), name_(name), stored_(stored), pieces_(std::move(pieces)) {
  if (!folder.has_file(name) && !path_exists(path()))
    fail(Code::kCheckpointCorrupt, "{} is missing, though the manifest lists it", path());
  SafetensorsFile file = SafetensorsFile::open(folder, name);
  if (file.file().size() != stored.bytes)
    fail(Code::kCheckpointCorrupt, "{} has {} bytes, but the manifest says {}", path(), file.file().size(),
         stored.bytes);
  check_pieces(file);
  data_begin_ = file.data_begin();
  // Pieces without bytes share their offset with the next piece, and sort before it.
  std::sort(pieces_.begin(), pieces_.end(), [](const PieceRef& a, const PieceRef& b) {
    return a.piece->offset != b.piece->offset ? a.piece->offset < b.piece->offset : bytes_of(a) < bytes_of(b);
  });
  if (keep_open) open_.emplace(file.take_file());
}

/// Checks that pieces and the header's tensors match one to one.
void ShardFile::check_pieces(const SafetensorsFile& file) const {
  std::vector<bool> taken(file.tensors().size());
  for (const PieceRef& ref : pieces_) {
    const std::string name = stored_name(*ref.name, *ref.tensor, *ref.piece);
    const TensorInfo* info = file.find(name);
    if (info == nullptr)
      fail(Code::kCheckpointCorrupt, "{} has no tensor {}, though the manifest lists it", path(),
           in_quotes(name));
    const char* dtype = dtype_name(ref.tensor->dtype);
    const std::vector<int64_t> shape = stored_shape(*ref.tensor, *ref.piece);
    if (info->dtype != dtype || info->shape != shape || info->begin != ref.piece->offset)
      fail(Code::kCheckpointCorrupt,
           "{}: tensor {} is {} {} at byte {}, but the manifest says {} {} at byte {}", path(),
           in_quotes(name), info->dtype, shape_text(info->shape), info->begin, dtype, shape_text(shape),
           ref.piece->offset);
    const size_t index = static_cast<size_t>(info - file.tensors().data());
    if (taken[index])
      fail(Code::kCheckpointCorrupt, "{}: the manifest has the tensor {} twice", path(), in_quotes(name));
    taken[index] = true;
  }
  if (file.tensors().size() != pieces_.size())
    fail(Code::kCheckpointCorrupt, "{} has {} tensors, but the manifest lists {} in it", path(),
         file.tensors().size(), pieces_.size());
}

void ShardFile::read(int64_t offset, void* dst, int64_t bytes) const {
  if (open_)
    open_->read_at(offset, dst, bytes);
  else
    folder_->open_file(name_).read_at(offset, dst, bytes);
}

void ShardFile::verify() const {
  if (open_)
    verify(*open_);
  else
    verify(folder_->open_file(name_));
}

void ShardFile::verify(const File& file) const {
  std::vector<char> buffer(static_cast<size_t>(std::min(kChunkBytes, std::max<int64_t>(stored_.bytes, 1))));
  Digest whole;
  const auto pass = [&](int64_t begin, int64_t end, Digest* part) {
    for (int64_t at = begin; at < end; at += kChunkBytes) {
      const int64_t n = std::min(kChunkBytes, end - at);
      check_interrupt();
      file.read_at(at, buffer.data(), n);
      whole.add(buffer.data(), n);
      if (part != nullptr) part->add(buffer.data(), n);
    }
  };
  pass(0, data_begin_, nullptr);
  for (const PieceRef& ref : pieces_) {
    Digest digest;
    pass(ref.piece->offset, ref.piece->offset + bytes_of(ref), &digest);
    if (digest.text() != ref.piece->digest) fail_damaged(file.path(), ref);
  }
  if (file.size() != stored_.bytes || whole.text() != stored_.digest)
    throw Error(Code::kCheckpointCorrupt,
                fmt::format("{}: the header (bytes 0 to {}) is damaged: the file's digest is not that of the "
                            "manifest",
                            file.path(), data_begin_),
                Json{{"begin", 0}, {"end", data_begin_}}.dump());
}

}  // namespace hawser::checkpoint
