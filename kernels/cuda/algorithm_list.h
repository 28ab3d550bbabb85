// Which algorithm of cuBLASLt each matrix product takes, in memory and as text: a line for each, for the file
// that keeps them (algorithm_cache.h) and for other ranks.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/cublaslt_library.h"

namespace hawser::kernels::cuda {

/// All that chooses an algorithm, as numbers (numbers_of in matmul_cublaslt.h).
using ProductNumbers = std::array<int64_t, 18>;

struct ChosenAlgorithm {
  ProductNumbers product = {};
  cublaslt::Algorithm algorithm = {};
  int64_t nanoseconds = 0;  ///< 0: it was not timed
};

/// Longest line of text, with its end.
inline constexpr size_t kAlgorithmLine = 1024;

/// Writes "numbers of the product;words of the algorithm;nanoseconds\n", ended by 0; returns its length.
size_t write_algorithm(const ChosenAlgorithm& chosen, char* out, size_t bytes);
/// Reads such a line. False: it is damaged.
bool read_algorithm(const char* line, ChosenAlgorithm* out);

/// In the order in which products came. Constant size: it is used where nothing may be thrown.
class AlgorithmList {
 public:
  static constexpr size_t kMost = 1024;  ///< many more than a model has

  /// Null: not there.
  const ChosenAlgorithm* find(const ProductNumbers& product) const;
  /// A later one replaces an earlier one of the same product; beyond kMost nothing is kept.
  void keep(const ChosenAlgorithm& chosen);

  const ChosenAlgorithm* begin() const { return entries_.data(); }
  const ChosenAlgorithm* end() const { return entries_.data() + count_; }

 private:
  std::array<ChosenAlgorithm, kMost> entries_;
  size_t count_ = 0;
};

}  // namespace hawser::kernels::cuda
