// AlgorithmCache: the file that stores the fastest algorithm of each matrix product. It is text, one line for
// each, append-only. Lines of other GPUs, of other versions of cuBLASLt or of this file, and of the other
// value of `deterministic` are ignored, so one file can serve many machines.
#pragma once

#include "kernels/cuda/algorithm_list.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::kernels::cuda {

/// The GPU, library and setting for which algorithms were chosen. Algorithms of another owner cannot be used.
struct AlgorithmOwner {
  const char* gpu = "";  ///< must outlive the cache
  size_t library_version = 0;
  bool deterministic = true;
};

class AlgorithmCache {
 public:
  /// Reads `path`, which need not exist. If the file cannot be used, returns false and stores the reason
  /// (file, line, remedy) in `failure`.
  bool open(const char* path, const AlgorithmOwner& owner, StickyError& failure);

  /// The owner's algorithms that were read or added.
  const AlgorithmList& known() const { return known_; }
  /// Writes a line immediately. If that fails, returns false and stores the reason in `failure`, because the
  /// next run might then choose another algorithm.
  bool add(const ChosenAlgorithm& chosen, StickyError& failure);

 private:
  bool read_line(const char* line);

  AlgorithmOwner owner_;
  char path_[4096] = {};
  AlgorithmList known_;
};

}  // namespace hawser::kernels::cuda
