#include "engine/checkpoint/stored_tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/safetensors.h"

namespace hawser::checkpoint {

std::optional<int64_t> element_count(DType dtype, const std::vector<int64_t>& shape) {
  if (shape.size() > kMaxTensorRank) return std::nullopt;
  int64_t bytes = dtype_bytes(dtype);
  for (const int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) return std::nullopt;
  return bytes / dtype_bytes(dtype);
}

std::string stored_name(const std::string& name, const StoredTensor& tensor, const StoredPiece& piece) {
  return tensor.is_whole(piece) ? name : fmt::format("{}[{}:{}]", name, piece.begin, piece.end);
}

std::vector<int64_t> stored_shape(const StoredTensor& tensor, const StoredPiece& piece) {
  return tensor.is_whole(piece) ? tensor.shape : std::vector<int64_t>{piece.end - piece.begin};
}

void require_covered(const std::string& name, StoredTensor* tensor, const std::string& where, Code code) {
  std::vector<StoredPiece>& pieces = tensor->pieces;
  std::sort(pieces.begin(), pieces.end(), [](const StoredPiece& a, const StoredPiece& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  const auto missing = [&](int64_t begin, int64_t end) {
    fail(code, "{}: tensor {} is incomplete: no piece has its elements [{}, {}) of {}", where,
         in_quotes(name), begin, end, tensor->elements);
  };
  if (pieces.empty()) missing(0, tensor->elements);
  int64_t at = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const StoredPiece& piece = pieces[i];
    if (piece.begin > at) missing(at, piece.begin);
    // The pieces so far are consecutive, so only the previous one can hold the same elements.
    if (piece.begin < at || (i > 0 && tensor->elements == 0))
      fail(code, "{}: tensor {} has its elements [{}, {}) twice, in {} and in {}", where, in_quotes(name),
           piece.begin, std::min(at, piece.end), in_quotes(pieces[i - 1].file), in_quotes(piece.file));
    at = piece.end;
  }
  if (at < tensor->elements) missing(at, tensor->elements);
}

}  // namespace hawser::checkpoint
