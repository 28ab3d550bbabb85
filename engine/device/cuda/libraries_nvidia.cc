// Opens NVIDIA's cuBLASLt and cuDNN. tests/cuda_emulation replaces this file with its own libraries.
#include <new>

#include "engine/base/code.h"
#include "engine/device/cuda/libraries.h"
#include "kernels/cuda/cudnn/sdpa_cudnn.h"
#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/sdpa.h"

namespace hawser::device {
namespace {

using kernels::cuda::AlgorithmCache;
using kernels::cuda::AlgorithmChoice;
using kernels::cuda::CublasLt;
using kernels::cuda::CublasLtApi;
using kernels::cuda::CudaStream;
using kernels::cuda::StickyError;

bool no_memory(StickyError* failure) {
  failure->keep(static_cast<int32_t>(Code::kOutOfMemory), "cuBLASLt", "no host memory is left", "");
  return false;
}

bool open_cache(const DeviceRequest& request, const char* gpu, size_t version, AlgorithmChoice* choice,
                StickyError* failure) {
  if (request.algorithm_cache == nullptr) return true;
  choice->cache = new (std::nothrow) AlgorithmCache;
  if (choice->cache == nullptr) return no_memory(failure);
  if (choice->cache->open(request.algorithm_cache, {gpu, version, request.deterministic}, *failure))
    return true;
  delete choice->cache;
  return false;
}

/// The compute capability of a GPU; 0.0 if it is unknown.
struct Capability {
  int major = 0, minor = 0;
  explicit Capability(int32_t index) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, index) == cudaSuccess)
      major = properties.major, minor = properties.minor;
  }
  /// True if cuBLASLt multiplies fp8 on the GPU.
  bool has_fp8() const { return major >= 9 || (major == 8 && minor == 9); }
  /// True if cuBLASLt's products with GELU are faster than a product and a separate kernel: on data centre
  /// GPUs since Hopper. They are slower on other GPUs, as users measured on 8.x and 12.x.
  bool gelu_belongs_in_epilogues() const { return major == 9 || major == 10; }
};

bool start_cublaslt(CudaStream* stream, const DeviceRequest& request, const char* gpu, StickyError* failure) {
  char why[320] = "";
  const CublasLtApi* const api = kernels::cuda::open_cublaslt(why, sizeof why);
  if (api == nullptr) {
    failure->keep(static_cast<int32_t>(Code::kDeviceUnavailable),
                  "device \"cuda\" multiplies matrices by cuBLASLt 13", why,
                  "install it (CUDA Toolkit 13, or the nvidia-cublas package) where the loader finds it");
    return false;
  }
  const Capability capability(request.index);
  AlgorithmChoice choice{.deterministic = request.deterministic,
                         .gelu = capability.gelu_belongs_in_epilogues(),
                         .fp8 = capability.has_fp8()};
  if (!open_cache(request, gpu, api->GetVersion(), &choice, failure)) return false;
  stream->cublaslt = new (std::nothrow) CublasLt(*api, choice, *failure);
  if (stream->cublaslt == nullptr) {
    delete choice.cache;
    return no_memory(failure);
  }
  return failure->code == 0;
}

}  // namespace

bool start_libraries(CudaStream* stream, const DeviceRequest& request, const char* gpu,
                     kernels::cuda::ErrorText without, StickyError* failure) {
  if (!start_cublaslt(stream, request, gpu, failure)) return false;
  stream->sdpa = kernels::cuda::open_cudnn_sdpa(request.deterministic, without);
  return true;
}

void end_libraries(CudaStream* stream) {
  delete stream->sdpa;
  delete stream->cublaslt;
  stream->sdpa = nullptr;
  stream->cublaslt = nullptr;
}

}  // namespace hawser::device
