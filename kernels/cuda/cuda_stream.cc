// Error handling of a CUDA stream.
#include "kernels/cuda/cuda_stream.h"

#include <cstdio>

#include "engine/base/code.h"

namespace hawser::kernels::cuda {
namespace {

void refuse_host_loop(Stream* self, int64_t, TaskFn, void*) {
  static_cast<CudaStream*>(self)->error->keep(static_cast<int32_t>(Code::kInternal), "Stream::run",
                                              "a loop of host tasks was given to a CUDA stream", "");
}

}  // namespace

void StickyError::keep(int32_t new_code, const char* operation, const char* what, const char* value) {
  if (code != 0) return;
  std::snprintf(message, sizeof(message), "%s: %s%s%s", operation, what, value[0] != '\0' ? ": " : "", value);
  __atomic_store_n(&code, new_code, __ATOMIC_RELEASE);
}

CudaStream::CudaStream(cudaStream_t stream, int32_t multiprocessor_count, StickyError* sticky_error)
    : Stream{&refuse_host_loop, 1},
      handle(stream),
      multiprocessors(multiprocessor_count),
      error(sticky_error) {}

bool CudaStream::succeeded(cudaError_t result, const char* operation) {
  if (result == cudaSuccess) return true;
  const Code code = result == cudaErrorMemoryAllocation ? Code::kOutOfMemory : Code::kDeviceUnavailable;
  error->keep(static_cast<int32_t>(code), operation, cudaGetErrorName(result), cudaGetErrorString(result));
  return false;
}

void CudaStream::keep_unimplemented(const char* operation, const char* what) {
  error->keep(static_cast<int32_t>(Code::kUnimplemented), operation, "not implemented on CUDA", what);
}

}  // namespace hawser::kernels::cuda
