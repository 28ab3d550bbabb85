// StoredTensor: where the parts of a tensor are stored. A tensor consists of any number of pieces, each a
// range of elements of the global row-major tensor or a rectangle of a matrix, so ranks of any layout can
// read what ranks of another wrote. Together the pieces hold every element exactly once. Nothing else about
// the writers is recorded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/error.h"

namespace hawser::checkpoint {

struct StoredFile {
  int64_t bytes = 0;
  std::string digest;
};

/// Elements [begin, end), at byte `offset` of `file`. Only the single piece of a tensor without elements is
/// empty. With rows > 1 the piece is a rectangle: the same columns of `rows` consecutive rows, of which
/// [begin, end) is the first. A rectangle never has all columns, because it would be a range.
struct StoredPiece {
  int64_t begin = 0, end = 0;
  std::string file;
  int64_t offset = 0;
  std::string digest;  ///< digest of these bytes only
  int64_t rows = 1;

  int64_t elements() const { return (end - begin) * rows; }
};

struct StoredTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t elements = 0;             ///< element_count(dtype, shape)
  std::vector<StoredPiece> pieces;  ///< ascending once require_covered has passed

  int64_t bytes() const { return elements * dtype_bytes(dtype); }
  int64_t bytes_of(const StoredPiece& piece) const { return piece.elements() * dtype_bytes(dtype); }
  bool is_whole(const StoredPiece& piece) const { return piece.begin == 0 && piece.end == elements; }
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  bool has_rectangles() const {
    return std::any_of(pieces.begin(), pieces.end(), [](const StoredPiece& p) { return p.rows > 1; });
  }
  /// True if this tensor can have such a rectangle.
  bool has_rectangle(int64_t begin, int64_t end, int64_t rows) const;
};

using StoredFiles = std::map<std::string, StoredFile>;
using StoredTensors = std::map<std::string, StoredTensor>;

/// Returns the number of elements of a tensor of this shape; nothing for a negative dim, too many dims, or a
/// size in bytes beyond 63 bits.
std::optional<int64_t> element_count(DType dtype, const std::vector<int64_t>& shape);

/// Returns the name under which a safetensors file stores a piece: the tensor's own name for the complete
/// tensor, else "name[begin:end]" with one dim, or "name[row:row,column:column]".
std::string stored_name(const std::string& name, const StoredTensor& tensor, const StoredPiece& piece);
/// Returns ", elements [0, 7)" or ", rows [0, 4), columns [2, 5)" for messages; empty for a complete tensor.
std::string place_text(const StoredTensor& tensor, const StoredPiece& piece);
std::vector<int64_t> stored_shape(const StoredTensor& tensor, const StoredPiece& piece);

/// Sorts the pieces and throws `code` (naming tensor and elements) unless they hold every element exactly
/// once; a tensor without elements has exactly one piece. `where`: a file or a call, for messages.
void require_covered(const std::string& name, StoredTensor* tensor, const std::string& where, Code code);

}  // namespace hawser::checkpoint
