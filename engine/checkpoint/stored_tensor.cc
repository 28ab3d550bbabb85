#include "engine/checkpoint/stored_tensor.h"

#include <fmt/format.h>

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

bool StoredTensor::has_rectangle(int64_t begin, int64_t end, int64_t rows) const {
  if (shape.size() != 2 || begin < 0 || end <= begin || end > elements || rows < 2 || rows > shape[0])
    return false;
  const int64_t row = begin / columns(), width = end - begin;
  return width < columns() && (end - 1) / columns() == row && rows <= shape[0] - row;
}

std::string stored_name(const std::string& name, const StoredTensor& tensor, const StoredPiece& piece) {
  if (tensor.is_whole(piece)) return name;
  if (piece.rows == 1) return fmt::format("{}[{}:{}]", name, piece.begin, piece.end);
  const int64_t row = piece.begin / tensor.columns(), column = piece.begin % tensor.columns();
  return fmt::format("{}[{}:{},{}:{}]", name, row, row + piece.rows, column,
                     column + piece.end - piece.begin);
}

std::string place_text(const StoredTensor& tensor, const StoredPiece& piece) {
  if (tensor.is_whole(piece)) return "";
  if (piece.rows == 1) return fmt::format(", elements [{}, {})", piece.begin, piece.end);
  const int64_t row = piece.begin / tensor.columns(), column = piece.begin % tensor.columns();
  return fmt::format(", rows [{}, {}), columns [{}, {})", row, row + piece.rows, column,
                     column + piece.end - piece.begin);
}

std::vector<int64_t> stored_shape(const StoredTensor& tensor, const StoredPiece& piece) {
  if (piece.rows > 1) return {piece.rows, piece.end - piece.begin};
  return tensor.is_whole(piece) ? tensor.shape : std::vector<int64_t>{piece.end - piece.begin};
}

}  // namespace hawser::checkpoint
