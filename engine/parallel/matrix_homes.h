// MatrixHomes: a table that assigns each matrix to the rank that orthogonalises it (optim/muon.h). Ranks keep
// flat parts of a matrix's state, so each matrix has a home: one of the ranks that hold parts of it.
// GATHER_MATRIX brings the parts to the home, ORTHOGONALISE processes the whole matrix there, and
// SCATTER_MATRIX returns the result to all ranks that hold parts or copies. Matrices are assigned in order of
// decreasing cost, each to the rank with the least work so far. The assignment depends on the config alone,
// so every rank computes it without communication.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/mesh/mesh.h"
#include "engine/nn/parameter.h"
#include "engine/optim/muon.h"
#include "engine/parallel/state_layout.h"

namespace hawser::parallel {

/// A weight of two dims, one head of such a weight (nn::Parameter::matrix_rows), or one expert of a weight of
/// three. q, k, v, gate and up are matrices of their own, although products may read several of them as one.
struct Matrix {
  int32_t parameter = 0, group = 0;  ///< indexes in the table
  int64_t index = 0;                 ///< among the matrices of the parameter
  int64_t rows = 0, columns = 0;
  int64_t in_group = 0;  ///< its first element in its group
  int64_t home = 0;      ///< rank of the world

  int64_t elements() const { return rows * columns; }
};

/// Returns multiply-adds of one Newton-Schulz step: 4 r^2 c + 2 r^3, where r is the shorter side.
double matrix_cost(int64_t rows, int64_t columns);

/// The matrices of a block whose parts and copies the same ranks hold, as one rank sees them. Element offsets
/// are those of f32 arrays in two slots: `direction`, with this rank's part of each matrix by home, and
/// `home`, with all parts of its own matrices by rank.
struct BlockMatrices {
  /// A part of this rank's state, element `at` of `direction`.
  struct Part {
    int32_t parameter = 0, group = 0;
    int64_t rows = 0, columns = 0;  ///< of its matrix
    int64_t in_group = 0, n = 0, at = 0;
  };
  /// A matrix whose home is this rank: its parts, and the places of its result.
  struct AtHome {
    int64_t rows = 0, columns = 0;
    std::vector<optim::MatrixPiece> parts, results;
  };
  std::vector<Part> parts;
  std::vector<AtHome> at_home;
  int64_t ranks = 1, shards = 1;  ///< ranks that hold parts or copies; those of one copy

  /// Bytes by rank of the group, in `direction` and in `home`.
  std::vector<int64_t> by_home, by_rank;
  int64_t first = 0;  ///< the ranks [first, first + shards) hold the parts of this rank's copy

  // The largest of any rank of the stage, so that all have the same plan.
  int64_t direction_bytes = 0, home_bytes = 0;
  int64_t gathered_bytes = 0, scattered_bytes = 0;  ///< sent by one rank
  int64_t most_at_home = 0;

  bool gathers() const { return shards > 1; }
  bool scatters() const { return ranks > 1; }
};

class MatrixHomes {
 public:
  struct Place {
    mesh::DeviceMesh mesh;
    int64_t rank = 0;
    std::vector<int64_t> stage_of = {};  ///< as in ShardLayout::Options
  };
  MatrixHomes() = default;  ///< no matrices
  MatrixHomes(const nn::ParameterTable& table, const StateLayout& layout, const Place& place);

  /// Null if the block has no such matrices here. `experts`: those that mesh.ep divides, or all others.
  const BlockMatrices* of(int32_t block, bool experts) const;
  /// Every matrix of the stage, in the order of the table, with its home.
  const std::vector<Matrix>& all() const { return all_; }

 private:
  std::vector<Matrix> all_;
  std::vector<BlockMatrices> blocks_;  // 2 * block + experts
};

}  // namespace hawser::parallel
