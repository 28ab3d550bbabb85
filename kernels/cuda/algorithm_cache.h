// The file that keeps which algorithm was fastest for each matrix product: text, a line for each, only ever
// appended to. Lines of other GPUs, other versions of cuBLASLt, other versions of this file and the other
// choice of `deterministic` stand beside ours and are left alone, so one file serves many machines.
#pragma once

#include "kernels/cuda/algorithm_list.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::kernels::cuda {

/// Whose algorithms: those of another library, GPU or promise are of no use.
struct AlgorithmOwner {
  const char* gpu = "";  ///< outlives the cache
  size_t library_version = 0;
  bool deterministic = true;
};

class AlgorithmCache {
 public:
  /// Reads `path`, which need not exist. False, with the reason (file, line, what to do) in `failure`, where
  /// it cannot be used.
  bool open(const char* path, const AlgorithmOwner& owner, StickyError& failure);

  /// The owner's, as far as they were read and added.
  const AlgorithmList& known() const { return known_; }
  /// Writes a line, at once. False, with the reason in `failure`, where the file does not take it: what is
  /// not kept might be chosen otherwise by the next run.
  bool add(const ChosenAlgorithm& chosen, StickyError& failure);

 private:
  bool read_line(const char* line);

  AlgorithmOwner owner_;
  char path_[4096] = {};
  AlgorithmList known_;
};

}  // namespace hawser::kernels::cuda
