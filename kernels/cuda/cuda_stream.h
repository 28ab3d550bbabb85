// CudaStream: the hawser::Stream of a GPU. Kernels of the CUDA table take a Stream&, like all kernels, and
// find in it the stream to launch on, a useful grid size, and the place to report errors: kernels return
// nothing, so the first error is stored until the stream's owner requests it (Device::error).
#pragma once

#include <cuda_runtime.h>

#include "engine/base/stream.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/optional_library.h"

namespace hawser::kernels::cuda {

class CublasLt;
class Sdpa;

/// The first error of a device; later ones are consequences. It is a plain struct, because its owner is in
/// another library.
struct StickyError {
  int32_t code = 0;  ///< a number of engine/base/code.h; 0: none
  char message[508] = {};

  /// Stores "operation: what (value)" unless an error is already stored.
  void keep(int32_t new_code, const char* operation, const char* what, const char* value);
};

/// A stream is used by one thread at a time. The objects that it points to must outlive it.
struct CudaStream : Stream {
  /// num_workers is 1, because workspaces of this table do not depend on it. `run` only stores an error,
  /// because host loops cannot run on a GPU.
  CudaStream(cudaStream_t stream, int32_t multiprocessor_count, StickyError* sticky_error);

  cudaStream_t handle;
  int32_t multiprocessors;
  size_t most_shared_bytes = 48 << 10;  ///< maximum shared memory of a block
  StickyError* error;
  /// Current while a kernel is launched; null: the thread's current context is used.
  const Context* context = nullptr;
  CublasLt* cublaslt = nullptr;  ///< null: our own tiled kernel computes products (matmul_tiled.cu)
  Sdpa* sdpa = nullptr;          ///< null: our own tiled kernels compute attention
  /// Receives, before the first step, the reason why the device is slower than possible.
  ErrorText without = {};

  /// Stores the error of a runtime call; returns true on success.
  bool succeeded(cudaError_t result, const char* operation);

  /// Stores that `operation` is not implemented for `what`.
  void keep_unimplemented(const char* operation, const char* what);
};

inline CudaStream& cuda_stream(Stream& stream) { return static_cast<CudaStream&>(stream); }

}  // namespace hawser::kernels::cuda
