// Coverage check: throws unless the pieces of a tensor hold every element exactly once.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <vector>

#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/stored_tensor.h"
#include "engine/mesh/box.h"

namespace hawser::checkpoint {
namespace {

/// Checks sorted pieces of which some are rectangles: a sweep line moves over the rows and tracks which
/// columns are covered.
class Sweep {
 public:
  Sweep(const std::string& name, const StoredTensor& tensor, const std::string& where, Code code)
      : name_(name), tensor_(tensor), where_(where), code_(code) {
    for (const StoredPiece& piece : tensor.pieces) add(piece);
    std::sort(edges_.begin(), edges_.end());
  }

  void run() {
    int64_t row = 0;
    for (const Edge& edge : edges_) {
      if (edge.row > row) require_full(row), row = edge.row;
      edge.begins ? enter(edge) : leave(edge);
    }
    if (row < tensor_.shape[0]) require_full(row);
  }

 private:
  struct Span {
    int64_t end;
    const StoredPiece* piece;
  };
  /// A box enters at its first row and leaves at the row after its last. Leaving edges sort before entering
  /// ones.
  struct Edge {
    int64_t row;
    bool begins;
    int64_t begin, end;  // columns
    const StoredPiece* piece;
    bool operator<(const Edge& o) const {
      return std::tuple(row, begins, begin) < std::tuple(o.row, o.begins, o.begin);
    }
  };

  void add(const StoredPiece& piece) {
    const int64_t columns = tensor_.columns();
    const auto box = [&](int64_t row, int64_t end_row, int64_t begin, int64_t end) {
      edges_.push_back({row, true, begin, end, &piece}),
          edges_.push_back({end_row, false, begin, end, &piece});
    };
    if (piece.rows > 1) {
      const int64_t row = piece.begin / columns, begin = piece.begin % columns;
      return box(row, row + piece.rows, begin, begin + piece.end - piece.begin);
    }
    for (const mesh::Box& b : mesh::boxes_of_run({tensor_.shape[0], columns, 1, 1}, piece.begin, piece.end))
      box(b.begin[0], b.end[0], b.begin[1], b.end[1]);
  }

  void enter(const Edge& edge) {
    const auto next = covered_.lower_bound(edge.begin);
    if (next != covered_.end() && next->first < edge.end)
      fail_twice(edge, next->first, std::min(edge.end, next->second.end), *next->second.piece);
    if (next != covered_.begin()) {
      const auto& [begin, before] = *std::prev(next);
      if (before.end > edge.begin)
        fail_twice(edge, edge.begin, std::min(edge.end, before.end), *before.piece);
    }
    covered_.emplace_hint(next, edge.begin, Span{edge.end, edge.piece});
    width_ += edge.end - edge.begin;
  }

  void leave(const Edge& edge) {
    covered_.erase(edge.begin);
    width_ -= edge.end - edge.begin;
  }

  void require_full(int64_t row) const {
    if (width_ == tensor_.columns()) return;
    int64_t at = 0;
    for (const auto& [begin, span] : covered_) {
      if (begin > at) fail_missing(row, at, begin);
      at = span.end;
    }
    fail_missing(row, at, tensor_.columns());
  }

  [[noreturn]] void fail_missing(int64_t row, int64_t begin, int64_t end) const {
    const int64_t first = row * tensor_.columns();
    fail(code_, "{}: tensor {} is incomplete: no piece has its elements [{}, {}) of {}", where_,
         in_quotes(name_), first + begin, first + end, tensor_.elements);
  }
  [[noreturn]] void fail_twice(const Edge& edge, int64_t begin, int64_t end, const StoredPiece& other) const {
    const int64_t first = edge.row * tensor_.columns();
    fail(code_, "{}: tensor {} has its elements [{}, {}) twice, in {} and in {}", where_, in_quotes(name_),
         first + begin, first + end, in_quotes(other.file), in_quotes(edge.piece->file));
  }

  const std::string& name_;
  const StoredTensor& tensor_;
  const std::string& where_;
  Code code_;
  std::vector<Edge> edges_;
  std::map<int64_t, Span> covered_;  // spans of the current row, keyed by first column
  int64_t width_ = 0;                // columns that the spans cover
};

/// Checks pieces that are all ranges: each must begin where the previous one ended.
void require_consecutive(const std::string& name, const StoredTensor& tensor, const std::string& where,
                         Code code) {
  const std::vector<StoredPiece>& pieces = tensor.pieces;
  const auto missing = [&](int64_t begin, int64_t end) {
    fail(code, "{}: tensor {} is incomplete: no piece has its elements [{}, {}) of {}", where,
         in_quotes(name), begin, end, tensor.elements);
  };
  if (pieces.empty()) missing(0, tensor.elements);
  int64_t at = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const StoredPiece& piece = pieces[i];
    if (piece.begin > at) missing(at, piece.begin);
    // The pieces so far are consecutive, so only the previous one can hold the same elements.
    if (piece.begin < at || (i > 0 && tensor.elements == 0))
      fail(code, "{}: tensor {} has its elements [{}, {}) twice, in {} and in {}", where, in_quotes(name),
           piece.begin, std::min(at, piece.end), in_quotes(pieces[i - 1].file), in_quotes(piece.file));
    at = piece.end;
  }
  if (at < tensor.elements) missing(at, tensor.elements);
}

}  // namespace

void require_covered(const std::string& name, StoredTensor* tensor, const std::string& where, Code code) {
  std::sort(tensor->pieces.begin(), tensor->pieces.end(), [](const StoredPiece& a, const StoredPiece& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  if (tensor->has_rectangles())
    Sweep(name, *tensor, where, code).run();
  else
    require_consecutive(name, *tensor, where, code);
}

}  // namespace hawser::checkpoint
