#include "kernels/cuda/matmul_timing.h"

namespace hawser::kernels::cuda {
namespace {

/// Two events around work on a stream. Errors only mean that nothing was timed.
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

  bool made() const { return made_; }
  bool start(cudaStream_t stream) { return cudaEventRecord(from_, stream) == cudaSuccess; }
  bool stop(cudaStream_t stream, float* milliseconds) {
    return cudaEventRecord(to_, stream) == cudaSuccess && cudaEventSynchronize(to_) == cudaSuccess &&
           cudaEventElapsedTime(milliseconds, from_, to_) == cudaSuccess;
  }

 private:
  cudaEvent_t from_ = nullptr, to_ = nullptr;
  bool made_ = false;
};

}  // namespace

int LibraryProduct::run(const CublasLtApi& api, const cublaslt::Algorithm& algorithm, void* into,
                        cudaStream_t stream) const {
  const float alpha = 1.0f;
  return api.Matmul(handle, desc, &alpha, a, a_layout, b, b_layout, &beta, into, c_layout, into, c_layout,
                    &algorithm, workspace, workspace_bytes, stream);
}

int fastest(const CublasLtApi& api, const LibraryProduct& product, size_t c_bytes,
            const cublaslt::HeuristicResult* candidates, int count, CudaStream& stream, float* microseconds) {
  constexpr int kTimes = 5;
  Stopwatch watch;
  void* result = nullptr;
  if (!watch.made() || cudaMalloc(&result, c_bytes) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  cudaMemsetAsync(result, 0, c_bytes, stream.handle);
  int best = -1;
  for (int i = 0; i < count; ++i) {
    const cublaslt::HeuristicResult& candidate = candidates[i];
    if (candidate.state != cublaslt::kSuccess || candidate.workspace_bytes > product.workspace_bytes)
      continue;
    bool ran = product.run(api, candidate.algorithm, result, stream.handle) == cublaslt::kSuccess &&
               watch.start(stream.handle);
    for (int k = 0; k < kTimes && ran; ++k)
      ran = product.run(api, candidate.algorithm, result, stream.handle) == cublaslt::kSuccess;
    float milliseconds = 0;
    if (!ran || !watch.stop(stream.handle, &milliseconds)) continue;
    const float each = milliseconds * 1e3f / kTimes;
    if (best >= 0 && each >= *microseconds) continue;
    best = i;
    *microseconds = each;
  }
  cudaStreamSynchronize(stream.handle);
  cudaFree(result);
  cudaGetLastError();
  return best;
}

}  // namespace hawser::kernels::cuda
