// MatrixHomes: a table that assigns each matrix to the rank that orthogonalises it (optim/muon.h). Ranks hold
// parts of a matrix (matrix_parts.h), so each matrix has a home: one of the ranks whose share of the weight
// has elements of it. GATHER_MATRIX brings the parts to the home, ORTHOGONALISE processes the whole matrix
// there, and SCATTER_MATRIX returns the result to all ranks that hold parts or copies. Matrices are assigned
// in order of decreasing cost, each to the rank with the least work so far. The assignment depends on the
// config alone, so every rank computes it without communication.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/nn/parameter.h"
#include "engine/optim/muon.h"
#include "engine/parallel/matrix_parts.h"
#include "engine/parallel/state_layout.h"

namespace hawser::parallel {

/// Returns the FLOPs of one Newton-Schulz step: 4 r^2 c + 2 r^3, where r is the shorter side.
double matrix_cost(int64_t rows, int64_t columns);

/// One rank's view of the matrices of a block that the same ranks exchange. Offsets count elements of the f32
/// arrays in three slots: `direction` has this rank's part of each matrix, `parts` has all parts of the
/// matrices whose home is this rank (from GATHER_MATRIX), and `home` has their results for all ranks.
struct BlockMatrices {
  /// A part of this rank's state: n elements of a matrix.
  struct Part {
    int32_t parameter = 0, group = 0;
    int64_t rows = 0, columns = 0;  ///< of the matrix
    int64_t in_group = 0, n = 0;
    int64_t at = 0;      ///< in `direction`, until GATHER_MATRIX
    int64_t result = 0;  ///< in `direction`, from SCATTER_MATRIX on
  };
  /// A matrix whose home is this rank: its parts, and the places of its result.
  struct AtHome {
    int64_t rows = 0, columns = 0;
    std::vector<optim::MatrixPiece> parts, results;
  };
  /// What this rank exchanges, in bytes by rank of the group, one after the other.
  struct Exchange {
    std::vector<int64_t> sent, received;
  };
  std::vector<Part> parts;
  std::vector<AtHome> at_home;
  Exchange gather, scatter;
  int64_t ranks = 1;

  // Maxima over the ranks of the stage, so that all ranks have the same plan.
  int64_t direction_bytes = 0, parts_bytes = 0, home_bytes = 0;
  int64_t gathered_bytes = 0, scattered_bytes = 0;  ///< sent by one rank to others
  int64_t most_at_home = 0;

  /// gathers(): false if every home already holds its matrices whole. scatters(): false if, apart from homes,
  /// no rank holds parts or copies.
  bool gathers() const { return gathered_bytes > 0; }
  bool scatters() const { return scattered_bytes > 0; }
};

class MatrixHomes {
 public:
  MatrixHomes() = default;  ///< no matrices
  /// The matrices of a rank's stage. `stage_of`: as in ShardLayout::Options.
  MatrixHomes(const nn::ParameterTable& table, const StateLayout& layout, int64_t rank,
              const std::vector<int64_t>& stage_of);

  /// Returns null if the stage has no such matrices of the block. `experts`: true for the matrices that
  /// mesh.ep divides, false for all others.
  const BlockMatrices* of(int32_t block, bool experts) const;
  /// Every matrix of the stage, in the order of the table, with its home.
  const std::vector<Matrix>& all() const { return all_; }

 private:
  std::vector<Matrix> all_;
  std::vector<BlockMatrices> blocks_;  // 2 * block + experts
};

}  // namespace hawser::parallel
