// CudaStream: the hawser::Stream behind which a GPU works. Kernels of the CUDA table take a Stream& like all
// others and find here where to launch, how large a grid is worth its while, and where an error goes: kernels
// report nothing, so the first one stays here until whoever owns the stream asks (Device::error).
#pragma once

#include <cuda_runtime.h>

#include "engine/base/stream.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/optional_library.h"

namespace hawser::kernels::cuda {

class CublasLt;
class Sdpa;

/// The first error of a device; later ones follow from it. Plain memory, because the owner is on the other
/// side of a library border.
struct StickyError {
  int32_t code = 0;  ///< of engine/base/error.h, as a number; 0: none
  char message[508] = {};

  /// Keeps "operation: what (value)" unless an error is kept already.
  void keep(int32_t new_code, const char* operation, const char* what, const char* value);
};

/// One thread at a time. What is pointed to outlives the stream.
struct CudaStream : Stream {
  /// num_workers is 1: workspaces of this table do not depend on it. `run` only keeps an error, because no
  /// loop of the host belongs on a GPU.
  CudaStream(cudaStream_t stream, int32_t multiprocessor_count, StickyError* sticky_error);

  cudaStream_t handle;
  int32_t multiprocessors;
  StickyError* error;
  const Context* context = nullptr;  ///< current while a kernel is given to it; null: whatever is
  CublasLt* cublaslt = nullptr;      ///< null: products by our own tiled kernel (matmul_tiled.cu)
  Sdpa* sdpa = nullptr;              ///< null: attention by our own tiled kernels
  ErrorText without = {};  ///< where it is told, before the first step, what makes it slower than it could be

  /// Keeps what a runtime call returned, if it is no success; true if it is one.
  bool succeeded(cudaError_t result, const char* operation);

  /// Keeps that `operation` is not implemented for `what`.
  void keep_unimplemented(const char* operation, const char* what);
};

inline CudaStream& cuda_stream(Stream& stream) { return static_cast<CudaStream&>(stream); }

}  // namespace hawser::kernels::cuda
