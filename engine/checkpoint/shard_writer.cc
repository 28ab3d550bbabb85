// Shard writer: writes one rank's part of a save: its pieces, packed into files in the given order, and their
// index. Digests are computed in memory before the bytes are written.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "engine/checkpoint/shard_index.h"
#include "engine/checkpoint/sharded_save.h"

namespace hawser::checkpoint {
namespace {

constexpr int64_t kWriteBytes = int64_t{4} << 20;

[[noreturn]] void refuse(const PieceView& piece, const std::string& problem) {
  fail(Code::kInvalidArgument, "tensor {} {}", in_quotes(piece.name), problem);
}

/// Returns the piece's tensor in the index, created for its first piece.
StoredTensor* tensor_of(const PieceView& piece, ShardIndex* index) {
  const std::optional<int64_t> elements = element_count(piece.dtype, piece.shape);
  if (!elements) refuse(piece, "has the shape " + shape_text(piece.shape) + ", which cannot be stored");
  StoredTensor& tensor =
      index->tensors.try_emplace(piece.name, StoredTensor{piece.dtype, piece.shape, *elements, {}})
          .first->second;
  if (tensor.dtype != piece.dtype || tensor.shape != piece.shape)
    refuse(piece, fmt::format("is given as {} {} and as {} {}", dtype_name(tensor.dtype),
                              shape_text(tensor.shape), dtype_name(piece.dtype), shape_text(piece.shape)));
  if (piece.begin < 0 || piece.end < piece.begin || piece.end > *elements)
    refuse(piece, fmt::format("has {} elements; the piece [{}, {}) is outside them", *elements, piece.begin,
                              piece.end));
  if (piece.rows != 1 && !tensor.has_rectangle(piece.begin, piece.end, piece.rows))
    refuse(piece,
           fmt::format("has shape {}, in which {} rows that start with elements [{}, {}) are not a rectangle",
                       shape_text(piece.shape), piece.rows, piece.begin, piece.end));
  if (piece.data == nullptr && !piece.read && piece.end > piece.begin)
    refuse(piece, fmt::format("has no data for its elements [{}, {})", piece.begin, piece.end));
  return &tensor;
}

struct WrittenPiece {
  const PieceView* view;
  StoredTensor* tensor;
  StoredPiece piece;
};

/// Groups consecutive pieces, at most shard_bytes per group unless a single piece is larger.
std::vector<std::vector<WrittenPiece>> make_shards(const std::vector<PieceView>& pieces, int64_t shard_bytes,
                                                   ShardIndex* index) {
  std::vector<std::vector<WrittenPiece>> shards;
  int64_t filled = 0;
  for (const PieceView& view : pieces) {
    StoredTensor* tensor = tensor_of(view, index);
    WrittenPiece part{&view, tensor, {view.begin, view.end, {}, 0, {}, view.rows}};
    if (view.begin == view.end && tensor->elements > 0) continue;  // this rank holds no element of the tensor
    const int64_t bytes = tensor->bytes_of(part.piece);
    if (shards.empty() || (!shards.back().empty() && bytes > shard_bytes - filled)) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(std::move(part));
    filled += bytes;
  }
  return shards;
}

/// Appends in chunks, so that a cancel takes effect soon. Returns the digest of these bytes.
std::string append(SafetensorsWriter* writer, const PieceView& piece, SaveProgress* progress) {
  Digest digest;
  const int64_t bytes = piece.bytes();
  std::vector<char> chunk(piece.read ? static_cast<size_t>(std::min(kWriteBytes, bytes)) : 0);
  for (int64_t at = 0; at < bytes; at += kWriteBytes) {
    const int64_t n = std::min(kWriteBytes, bytes - at);
    progress->check();
    if (piece.read) piece.read(at, chunk.data(), n);
    writer->append(piece.read ? chunk.data() : static_cast<const char*>(piece.data) + at, n, &digest);
    progress->add(n);
  }
  return digest.text();
}

void write_file(const Folder& folder, const std::string& name, std::vector<WrittenPiece>* parts,
                ShardIndex* index, SaveProgress* progress) {
  std::vector<TensorInfo> infos;
  for (const WrittenPiece& part : *parts)
    infos.push_back({stored_name(part.view->name, *part.tensor, part.piece), dtype_name(part.view->dtype),
                     stored_shape(*part.tensor, part.piece), 0, 0});
  SafetensorsWriter writer(folder, name, std::move(infos), {{"format", "hawser"}});
  for (size_t i = 0; i < parts->size(); ++i) {
    WrittenPiece& part = (*parts)[i];
    const TensorInfo& info = writer.tensors()[i];
    part.piece.file = name;
    part.piece.offset = info.begin;
    part.piece.digest = append(&writer, *part.view, progress);
    part.tensor->pieces.push_back(std::move(part.piece));
  }
  writer.finish();
  index->files[name] = {writer.bytes(), writer.digest()};
}

/// Returns the name of a file. With one rank the names are the usual ones of safetensors.
std::string file_name(int rank, int world, size_t number, size_t count) {
  const std::string part = fmt::format("{:05}-of-{:05}", number, count);
  return world == 1 ? fmt::format("tensors-{}.safetensors", part)
                    : fmt::format("tensors-rank-{:05}-of-{:05}-{}.safetensors", rank, world, part);
}

}  // namespace

std::string write_shard(const std::string& folder, int rank, int world, const std::vector<PieceView>& pieces,
                        int64_t shard_bytes, SaveProgress* progress) {
  if (world < 1 || rank < 0 || rank >= world)
    fail(Code::kInvalidArgument, "there is no rank {} in a world of {}", rank, world);
  ShardIndex index{rank, world, {}, {}};
  auto shards = make_shards(pieces, std::max<int64_t>(shard_bytes, 1), &index);
  const Folder open = Folder::open(folder);
  SaveProgress unwatched;
  for (size_t i = 0; i < shards.size(); ++i)
    write_file(open, file_name(rank, world, i + 1, shards.size()), &shards[i], &index,
               progress != nullptr ? progress : &unwatched);
  return index_text(index);
}

}  // namespace hawser::checkpoint
