#include "kernels/cuda/matmul_timing.h"

namespace hawser::kernels::cuda {
namespace {

/// Two events around work on a stream. If a call fails, nothing is timed; that is not an error.
class Stopwatch {
 public:
  Stopwatch() {
    made_ = cudaEventCreateWithFlags(&from_, 0) == cudaSuccess &&
            cudaEventCreateWithFlags(&to_, 0) == cudaSuccess;
  }
  ~Stopwatch() {
    if (from_ != nullptr) cudaEventDestroy(from_);
    if (to_ != nullptr) cudaEventDestroy(to_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// Returns the milliseconds of `times` calls of work(), which queues work on the stream or returns false.
  /// Negative: it could not be timed.
  template <class Queue>
  float time(cudaStream_t stream, int times, const Queue& work) {
    float milliseconds = -1;
    bool ran = made_ && cudaEventRecord(from_, stream) == cudaSuccess;
    for (int i = 0; i < times && ran; ++i) ran = work();
    const bool timed = ran && cudaEventRecord(to_, stream) == cudaSuccess &&
                       cudaEventSynchronize(to_) == cudaSuccess &&
                       cudaEventElapsedTime(&milliseconds, from_, to_) == cudaSuccess;
    return timed ? milliseconds : -1;
  }

 private:
  cudaEvent_t from_ = nullptr, to_ = nullptr;
  bool made_ = false;
};

/// Returns the number of runs that takes a few milliseconds.
int times_of(float milliseconds) {
  constexpr float kEnough = 5;
  constexpr int kMost = 20;
  if (milliseconds * kMost <= kEnough) return kMost;
  return milliseconds < kEnough ? static_cast<int>(kEnough / milliseconds) : 1;
}

}  // namespace

int LibraryProduct::run(const CublasLtApi& api, const cublaslt::Algorithm& algorithm,
                        cudaStream_t stream) const {
  const float alpha = 1.0f;
  return api.Matmul(handle, desc, &alpha, a, a_layout, b, b_layout, &beta, c, c_layout, c, c_layout,
                    &algorithm, workspace, workspace_bytes, stream);
}

int fastest(const CublasLtApi& api, const LibraryProduct& product,
            const cublaslt::HeuristicResult* candidates, int count, CudaStream& stream,
            int64_t* nanoseconds) {
  constexpr float kHopeless = 1.5f;  // times the best time so far
  Stopwatch watch;
  int best = -1;
  float best_milliseconds = 0;
  for (int i = 0; i < count; ++i) {
    const cublaslt::HeuristicResult& candidate = candidates[i];
    if (candidate.state != cublaslt::kSuccess || candidate.workspace_bytes > product.workspace_bytes)
      continue;
    const auto queue = [&] {
      return product.run(api, candidate.algorithm, stream.handle) == cublaslt::kSuccess;
    };
    if (!queue()) continue;  // the first run also loads the algorithm's code
    const float once = watch.time(stream.handle, 1, queue);
    if (once < 0 || (best >= 0 && once > kHopeless * best_milliseconds)) continue;
    const int times = times_of(once);
    const float each = watch.time(stream.handle, times, queue) / static_cast<float>(times);
    if (each < 0 || (best >= 0 && each >= best_milliseconds)) continue;
    best = i;
    best_milliseconds = each;
  }
  *nanoseconds = static_cast<int64_t>(double{best_milliseconds} * 1e6);
  return best;
}

}  // namespace hawser::kernels::cuda
