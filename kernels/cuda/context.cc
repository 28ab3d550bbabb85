#include "kernels/cuda/context.h"

namespace hawser::kernels::cuda {
namespace {

constexpr unsigned kDriverApi = 12000;  // the version of the calls' prototypes, none of which has changed
                                        // since

/// Looks up a driver call; `at` receives its pointer.
template <class Call>
cudaError_t find(const char* name, Call* at) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSuccess;
  const cudaError_t result =
      cudaGetDriverEntryPointByVersion(name, &found, kDriverApi, cudaEnableDefault, &answer);
  if (result != cudaSuccess) return result;
  if (answer != cudaDriverEntryPointSuccess) return cudaErrorSymbolNotFound;
  *at = reinterpret_cast<Call>(found);
  return cudaSuccess;
}

/// Looks up `name` and calls it with args; returns the first failure.
template <class... Args>
cudaError_t call(const char* name, Args... args) {
  int (*driver_call)(Args...) = nullptr;
  const cudaError_t result = find(name, &driver_call);
  // The driver and the runtime use the same numbers for their codes.
  return result != cudaSuccess ? result : static_cast<cudaError_t>(driver_call(args...));
}

}  // namespace

cudaError_t retain_context(int32_t index, Context* out, const char** operation) {
  const auto failed = [operation](cudaError_t result, const char* name) {
    *operation = name;
    return result != cudaSuccess;
  };
  int device = 0;
  cudaError_t result = cudaSuccess;
  if (failed(result = call("cuInit", 0u), "cuInit") ||
      failed(result = call("cuDeviceGet", &device, static_cast<int>(index)), "cuDeviceGet") ||
      failed(result = find("cuCtxGetCurrent", &out->calls.get_current), "cuCtxGetCurrent") ||
      failed(result = find("cuCtxPushCurrent", &out->calls.push_current), "cuCtxPushCurrent") ||
      failed(result = find("cuCtxPopCurrent", &out->calls.pop_current), "cuCtxPopCurrent") ||
      failed(result = call("cuDevicePrimaryCtxRetain", &out->handle, device), "cuDevicePrimaryCtxRetain")) {
    cudaGetLastError();  // clears the runtime's copy of the error
    return result;
  }
  return cudaSuccess;
}

void release_context(int32_t index) {
  int device = 0;
  if (call("cuDeviceGet", &device, static_cast<int>(index)) == cudaSuccess)
    call("cuDevicePrimaryCtxRelease", device);
}

}  // namespace hawser::kernels::cuda
