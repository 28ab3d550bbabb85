#include <new>

#include "engine/base/code.h"
#include "engine/device/cuda/products.h"
#include "kernels/cuda/matmul_cublaslt.h"

namespace hawser::device {

using kernels::cuda::CublasLt;

bool start_products(kernels::cuda::CudaStream* stream, bool deterministic,
                    kernels::cuda::StickyError* failure) {
  char why[320] = "";
  const kernels::cuda::CublasLtApi* const api = kernels::cuda::open_cublaslt(why, sizeof why);
  if (api == nullptr) {
    failure->keep(static_cast<int32_t>(Code::kDeviceUnavailable),
                  "device \"cuda\" multiplies matrices by cuBLASLt 13", why,
                  "install it (CUDA Toolkit 13, or the nvidia-cublas package) where the loader finds it");
    return false;
  }
  stream->cublaslt = new (std::nothrow) CublasLt(*api, deterministic, *failure);
  if (stream->cublaslt == nullptr)
    failure->keep(static_cast<int32_t>(Code::kOutOfMemory), "cuBLASLt", "no host memory is left", "");
  return failure->code == 0;
}

void end_products(kernels::cuda::CudaStream* stream) {
  delete stream->cublaslt;
  stream->cublaslt = nullptr;
}

}  // namespace hawser::device
