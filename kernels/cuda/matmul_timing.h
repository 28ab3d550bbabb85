// Timing the algorithms that cuBLASLt suggests for a product, on the operands of its first call.
#pragma once

#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::kernels::cuda {

/// A product as cublasLtMatmul takes it.
struct LibraryProduct {
  cublaslt::Handle handle;
  cublaslt::Desc desc;
  cublaslt::Layout a_layout, b_layout, c_layout;
  const void *a, *b;
  void* c;
  float beta;
  void* workspace;
  size_t workspace_bytes;

  int run(const CublasLtApi& api, const cublaslt::Algorithm& algorithm, void* into,
          cudaStream_t stream) const;
};

/// The fastest of `candidates`, its time in `microseconds`; -1: none could be timed (no memory for a result
/// of `c_bytes` beside the arena), and nothing is wrong. Results go to memory of their own, taken for as long
/// as this takes.
int fastest(const CublasLtApi& api, const LibraryProduct& product, size_t c_bytes,
            const cublaslt::HeuristicResult* candidates, int count, CudaStream& stream, float* microseconds);

}  // namespace hawser::kernels::cuda
