// Times the algorithms that cuBLASLt suggests for a product.
#pragma once

#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::kernels::cuda {

/// The arguments of cublasLtMatmul for a product.
struct LibraryProduct {
  cublaslt::Handle handle;
  cublaslt::Desc desc;
  cublaslt::Layout a_layout, b_layout, c_layout;
  const void *a, *b;
  void* c;
  float beta;
  void* workspace;
  size_t workspace_bytes;

  /// Queues the product; returns a cublasStatus_t.
  int run(const CublasLtApi& api, const cublaslt::Algorithm& algorithm, cudaStream_t stream) const;
};

/// Returns the index of the fastest of `candidates`, with its time in `nanoseconds`; -1 if none could be
/// timed. Each of them runs a few times and overwrites the result. Waits for the stream.
int fastest(const CublasLtApi& api, const LibraryProduct& product,
            const cublaslt::HeuristicResult* candidates, int count, CudaStream& stream, int64_t* nanoseconds);

}  // namespace hawser::kernels::cuda
