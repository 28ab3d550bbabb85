#include "engine/checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/safetensors.h"

namespace hawser::checkpoint {
namespace {

// A process with several readers (one per rank) stays well below the usual limit of 1024 open files.
constexpr size_t kMaxOpenFiles = 64;
constexpr int64_t kReadBytes = int64_t{4} << 20;  ///< bytes of a rectangle that are read at a time

}  // namespace

Reader::Reader(const std::string& path) : folder_(Folder::open(path)) {
  if (!folder_.has_file(kManifestName))
    fail(Code::kNotFound, "{} is not a checkpoint: it has no {}", path, kManifestName);
  manifest_ = read_manifest(folder_);
  std::map<std::string, std::vector<PieceRef>> pieces_in;
  for (const auto& [name, tensor] : manifest_.tensors) {
    entries_[name] = {tensor.dtype, tensor.shape};
    for (const StoredPiece& piece : tensor.pieces) pieces_in[piece.file].push_back({&name, &tensor, &piece});
  }
  for (const auto& [name, stored] : manifest_.files) {
    std::string extra;
    if (is_extra_file(name, &extra))
      read_extra(extra, stored);
    else
      files_.try_emplace(name, folder_, name, stored, std::move(pieces_in[name]),
                         files_.size() < kMaxOpenFiles);
  }
}

void Reader::read(const std::string& name, void* dst, int64_t bytes) const {
  const StoredTensor& tensor = tensor_at(name);
  if (bytes != tensor.bytes())
    fail(Code::kCheckpointIncompatible, "{}: tensor {} is {} {} ({} bytes), but {} bytes are expected",
         folder_.path(), in_quotes(name), dtype_name(tensor.dtype), shape_text(tensor.shape), tensor.bytes(),
         bytes);
  read_pieces(name, tensor, 0, tensor.elements, dst);
}

void Reader::read_range(const std::string& name, int64_t begin, int64_t end, void* dst, int64_t bytes) const {
  const StoredTensor& tensor = tensor_at(name);
  if (begin < 0 || end < begin || end > tensor.elements)
    fail(Code::kOutOfRange, "{}: tensor {} of shape {} has {} elements; the range [{}, {}) is outside them",
         folder_.path(), in_quotes(name), shape_text(tensor.shape), tensor.elements, begin, end);
  const int64_t expected = (end - begin) * dtype_bytes(tensor.dtype);
  if (bytes != expected)
    fail(Code::kCheckpointIncompatible,
         "{}: elements [{}, {}) of tensor {} are {} bytes of {}, but {} bytes are expected", folder_.path(),
         begin, end, in_quotes(name), expected, dtype_name(tensor.dtype), bytes);
  read_pieces(name, tensor, begin, end, dst);
}

void Reader::verify(int64_t part, int64_t parts) const {
  for (const std::string& name : share_of(part, parts)) files_.at(name).verify();
}

/// Assigns files largest first, each to the part with the fewest bytes so far. All callers get the same
/// result.
std::vector<std::string> Reader::share_of(int64_t part, int64_t parts) const {
  HWS_CHECK(part >= 0 && part < parts);
  std::vector<std::pair<int64_t, std::string>> by_size;
  for (const auto& [name, file] : files_) by_size.emplace_back(manifest_.files.at(name).bytes, name);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int64_t> bytes_of(static_cast<size_t>(parts));
  std::vector<std::string> share;
  for (const auto& [bytes, name] : by_size) {
    const auto least = std::min_element(bytes_of.begin(), bytes_of.end());
    *least += bytes;
    if (least - bytes_of.begin() == part) share.push_back(name);
  }
  return share;
}

const StoredTensor& Reader::tensor_at(const std::string& name) const {
  const auto found = manifest_.tensors.find(name);
  if (found == manifest_.tensors.end())
    fail(Code::kNotFound, "the checkpoint {} has no tensor {}", folder_.path(), in_quotes(name));
  return found->second;
}

/// Reads [begin, end) from the sorted pieces. If all pieces are ranges, they have no gaps, so the first that
/// ends after `begin` contains it and the next pieces follow.
void Reader::read_pieces(const std::string& name, const StoredTensor& tensor, int64_t begin, int64_t end,
                         void* dst) const {
  const int64_t size = dtype_bytes(tensor.dtype);
  char* const to = static_cast<char*>(dst);
  auto piece = tensor.pieces.begin();
  if (!tensor.has_rectangles())
    piece = std::upper_bound(piece, tensor.pieces.end(), begin,
                             [](int64_t at, const StoredPiece& p) { return at < p.end; });
  for (; piece != tensor.pieces.end() && piece->begin < end; ++piece) {
    if (piece->rows > 1) {
      read_rectangle({&name, &tensor, &*piece}, begin, end, to);
      continue;
    }
    const int64_t from = std::max(begin, piece->begin), stop = std::min(end, piece->end);
    if (from >= stop) continue;
    const int64_t bytes = (stop - from) * size;
    char* const part = to + (from - begin) * size;
    const ShardFile& file = files_.at(piece->file);
    file.read(piece->offset + (from - piece->begin) * size, part, bytes);
    const bool is_all_of_it = from == piece->begin && stop == piece->end;
    if (is_all_of_it && Digest::of(part, bytes) != piece->digest)
      fail_damaged(file.path(), {&name, &tensor, &*piece});
  }
}

/// Copies the elements of [begin, end) that the rectangle holds to their positions in `dst`, which starts at
/// element `begin`. The rectangle's rows follow each other in the file, so many are read at once.
void Reader::read_rectangle(const PieceRef& ref, int64_t begin, int64_t end, char* dst) const {
  const StoredPiece& piece = *ref.piece;
  const int64_t size = dtype_bytes(ref.tensor->dtype), columns = ref.tensor->columns();
  const int64_t width = piece.end - piece.begin;
  const auto row_of = [&](int64_t at) { return at / columns - piece.begin / columns; };
  const int64_t first = std::max<int64_t>(0, row_of(begin)), last = std::min(piece.rows, row_of(end - 1) + 1);
  const int64_t together = std::max<int64_t>(1, kReadBytes / (width * size));  // rows
  const bool is_all_of_it = begin <= piece.begin && piece.begin + (piece.rows - 1) * columns + width <= end;
  const ShardFile& file = files_.at(piece.file);
  std::vector<char> rows(static_cast<size_t>(std::clamp<int64_t>(last - first, 0, together) * width * size));
  Digest digest;
  for (int64_t row = first; row < last; row += together) {
    const int64_t n = std::min(together, last - row);
    file.read(piece.offset + row * width * size, rows.data(), n * width * size);
    if (is_all_of_it) digest.add(rows.data(), n * width * size);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t own = piece.begin + (row + i) * columns;
      const int64_t from = std::max(begin, own), stop = std::min(end, own + width);
      if (from < stop)
        std::memcpy(dst + (from - begin) * size, rows.data() + (i * width + from - own) * size,
                    static_cast<size_t>((stop - from) * size));
    }
  }
  if (is_all_of_it && digest.text() != piece.digest) fail_damaged(file.path(), ref);
}

void Reader::read_extra(const std::string& name, const StoredFile& stored) {
  const std::string path = folder_.path_of(kExtraFolder) + "/" + name;
  if (!path_exists(path)) fail(Code::kCheckpointCorrupt, "{} is missing, though the manifest lists it", path);
  const Folder extra = folder_.open_folder(kExtraFolder);
  const File file = extra.open_file(name);
  if (file.size() != stored.bytes)
    fail(Code::kCheckpointCorrupt, "{} has {} bytes, but the manifest says {}", path, file.size(),
         stored.bytes);
  if (stored.bytes > kMaxExtraBytes - extra_bytes_)
    fail(Code::kCheckpointCorrupt, "the carried files in {} have more than {} bytes together", extra.path(),
         kMaxExtraBytes);
  extra_bytes_ += stored.bytes;
  std::string text(static_cast<size_t>(stored.bytes), '\0');
  file.read_at(0, text.data(), stored.bytes);
  if (Digest::of(text.data(), stored.bytes) != stored.digest)
    fail(Code::kCheckpointCorrupt, "{} is damaged: its digest differs from the manifest's", path);
  manifest_.description.extra_files[name] = std::move(text);
}

std::unique_ptr<Reader> Reader::open(const std::string& path) { return std::make_unique<Reader>(path); }

}  // namespace hawser::checkpoint
