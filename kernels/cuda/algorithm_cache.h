// The file that stores the fastest algorithm of each matrix product: text, one line for each, append-only.
// Lines of other GPUs, of other versions of cuBLASLt or of this file, and of the other value of
// `deterministic` may be in the same file and are ignored, so one file serves many machines.
#pragma once

#include "kernels/cuda/algorithm_list.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::kernels::cuda {

/// Whom the algorithms are for. Those of another library, GPU or value of `deterministic` cannot be used.
struct AlgorithmOwner {
  const char* gpu = "";  ///< outlives the cache
  size_t library_version = 0;
  bool deterministic = true;
};

class AlgorithmCache {
 public:
  /// Reads `path`, which need not exist. Returns false, with the reason (file, line, what to do) in
  /// `failure`, if it cannot be used.
  bool open(const char* path, const AlgorithmOwner& owner, StickyError& failure);

  /// The owner's algorithms that were read or added.
  const AlgorithmList& known() const { return known_; }
  /// Writes a line immediately. Returns false, with the reason in `failure`, if that fails: the next run
  /// might then choose another algorithm.
  bool add(const ChosenAlgorithm& chosen, StickyError& failure);

 private:
  bool read_line(const char* line);

  AlgorithmOwner owner_;
  char path_[4096] = {};
  AlgorithmList known_;
};

}  // namespace hawser::kernels::cuda
