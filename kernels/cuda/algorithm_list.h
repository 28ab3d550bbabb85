// The algorithm of cuBLASLt for each matrix product, in memory and as text: one line for each, for the file
// that stores them (algorithm_cache.h) and for other ranks.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/cublaslt_library.h"

namespace hawser::kernels::cuda {

/// Everything that determines an algorithm, as numbers (numbers_of in matmul_cublaslt.h).
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
/// Reads such a line. Returns false if it is damaged.
bool read_algorithm(const char* line, ChosenAlgorithm* out);

/// In the order in which products were added. Fixed size, because it is used where nothing may throw.
class AlgorithmList {
 public:
  static constexpr size_t kMost = 1024;  ///< many more than a model has

  /// Null if absent.
  const ChosenAlgorithm* find(const ProductNumbers& product) const;
  /// Replaces an earlier choice for the same product. Beyond kMost nothing is stored.
  void keep(const ChosenAlgorithm& chosen);

  const ChosenAlgorithm* begin() const { return entries_.data(); }
  const ChosenAlgorithm* end() const { return entries_.data() + count_; }

 private:
  std::array<ChosenAlgorithm, kMost> entries_;
  size_t count_ = 0;
};

}  // namespace hawser::kernels::cuda
