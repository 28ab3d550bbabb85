// AlgorithmList: the algorithms of cuBLASLt for matrix products, in memory and as text: one line for each,
// for the file that stores them (algorithm_cache.h) and for other ranks.
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

/// The longest line of text, including its end.
inline constexpr size_t kAlgorithmLine = 1024;

/// Writes "numbers of the product;words of the algorithm;nanoseconds\n" and a NUL; returns the length.
size_t write_algorithm(const ChosenAlgorithm& chosen, char* out, size_t bytes);
/// Reads a line of write_algorithm. Returns false if it is damaged.
bool read_algorithm(const char* line, ChosenAlgorithm* out);

/// A list in the order in which products were added. It has a fixed size, because it is used in code that
/// must not throw.
class AlgorithmList {
 public:
  static constexpr size_t kMost = 1024;  ///< far more than a model has

  /// Returns null if the product is absent.
  const ChosenAlgorithm* find(const ProductNumbers& product) const;
  /// Replaces an earlier choice for the same product. Stores nothing beyond kMost.
  void keep(const ChosenAlgorithm& chosen);

  const ChosenAlgorithm* begin() const { return entries_.data(); }
  const ChosenAlgorithm* end() const { return entries_.data() + count_; }

 private:
  std::array<ChosenAlgorithm, kMost> entries_;
  size_t count_ = 0;
};

}  // namespace hawser::kernels::cuda
