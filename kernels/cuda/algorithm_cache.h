// The file that keeps which algorithm was fastest for each matrix product: text, a line for each, only ever
// appended to. Lines of other GPUs, other versions of cuBLASLt, other versions of this file and the other
// choice of `deterministic` stand beside ours and are left alone, so one file serves many machines.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::kernels::cuda {

/// All that chooses an algorithm, as numbers (numbers_of in matmul_cublaslt.h).
using ProductNumbers = std::array<int64_t, 18>;

/// Whose algorithms: those of another library, GPU or promise are of no use.
struct AlgorithmOwner {
  const char* gpu = "";  ///< outlives the cache
  size_t library_version = 0;
  bool deterministic = true;
};

class AlgorithmCache {
 public:
  /// Reads `path`, which need not exist; with `adds` makes sure that it can be added to. False, with the
  /// reason (file, line, what to do) in `failure`, where it cannot be used. At most 1024 products are kept.
  bool open(const char* path, const AlgorithmOwner& owner, bool adds, StickyError& failure);

  bool find(const ProductNumbers& product, cublaslt::Algorithm* out) const;
  /// Writes a line, at once. One that cannot be written (a full disk) is timed again next time.
  void add(const ProductNumbers& product, const cublaslt::Algorithm& algorithm, float microseconds);

 private:
  struct Entry {
    ProductNumbers product;
    cublaslt::Algorithm algorithm;
  };
  bool read_line(const char* line);
  void keep(const Entry& entry);

  AlgorithmOwner owner_;
  char path_[4096] = {};
  std::array<Entry, 1024> entries_;
  size_t count_ = 0;
};

}  // namespace hawser::kernels::cuda
