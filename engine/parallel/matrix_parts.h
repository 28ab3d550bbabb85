// MatrixParts: a table of the elements of each matrix that each rank holds, for optimizers that update whole
// matrices (optim/muon.h). Tensor-parallel ranks divide a weight by rows or columns, expert-parallel ranks by
// experts: each has a share of the weight. ZeRO divides a share into flat shards. Other ranks hold copies.
// The table is derived from the layout of the weight's state (state_layout.h).
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "engine/nn/parameter.h"
#include "engine/parallel/state_layout.h"

namespace hawser::parallel {

/// A weight of two dims, one head of such a weight (nn::Parameter::matrix_rows), or one expert of a weight of
/// three. q, k, v, gate and up are matrices of their own, although products may read several of them as one.
struct Matrix {
  int32_t parameter = 0, group = 0;  ///< indexes in the table
  int64_t index = 0;                 ///< among the matrices of the parameter
  int64_t rows = 0, columns = 0;
  int64_t home = 0;  ///< rank of the world

  int64_t elements() const { return rows * columns; }
};

/// The ranks that exchange parts of matrices with each other, and the place of each: which part it holds of
/// every weight that the model axes divide in the same way.
struct Holders {
  struct Place {
    int64_t share = 0;  ///< number of its share of the weight
    int64_t shard = 0;  ///< number of its shard of that share
    int64_t copy = 0;   ///< together, ranks with the same number hold each element once
  };
  std::vector<int64_t> ranks;  ///< of the world, ascending
  std::vector<Place> places;   ///< by rank
  int64_t shards = 1, copies = 1;
};

/// The part of a matrix in one share of its weight: some rows, or some columns of all rows.
struct MatrixWindow {
  int64_t corner = 0;    ///< its first element in the matrix
  int64_t width = 0;     ///< columns
  int64_t elements = 0;  ///< row by row in the share
  int64_t in_group = 0;  ///< its first element in the parameter group
};

/// A matrix and its parts. Ranks are numbered as in Holders::ranks.
class HeldMatrix {
 public:
  /// Elements [begin, begin + n) of a window.
  struct Part {
    MatrixWindow window;
    int64_t begin = 0, n = 0;
    int64_t in_group() const { return window.in_group + begin; }
  };

  Matrix matrix;
  const Holders* holders = nullptr;
  int64_t group_elements = 0;
  int64_t first_share = 0;            ///< the share of the first window
  std::vector<MatrixWindow> windows;  ///< of consecutive shares

  /// True if the rank's share has elements of the matrix. Its shard may have none of them.
  bool is_in_share(size_t rank) const { return window(rank) != nullptr; }
  /// Returns the rank's part; its n is 0 if the rank holds no element of the matrix.
  Part part(size_t rank) const;
  bool in_one_copy(size_t a, size_t b) const { return holders->places[a].copy == holders->places[b].copy; }

 private:
  const MatrixWindow* window(size_t rank) const;
};

class MatrixParts {
 public:
  /// Finds the matrices of the rank's stage, including those of experts that other ranks have. They have no
  /// homes yet. `stage_of`: as in ShardLayout::Options.
  MatrixParts(const nn::ParameterTable& table, const StateLayout& layout, int64_t rank,
              const std::vector<int64_t>& stage_of);

  std::vector<HeldMatrix>& all() { return all_; }

 private:
  void find(const nn::Parameter& p, int32_t number);
  const Holders* holders(const GroupedTensor& t, int64_t shares, int64_t share);

  const nn::ParameterTable& table_;
  const StateLayout& layout_;
  const int64_t rank_;
  std::map<std::tuple<bool, int64_t, int64_t>, Holders> holders_;  // keyed by experts, shares, their share
  std::vector<HeldMatrix> all_;
};

}  // namespace hawser::parallel
