// Libraries of the emulated GPU: attention is the CPU's, behind the interface to cuDNN; cuBLASLt is emulated
// if a test requests it, and otherwise missing, so that our own kernel multiplies.
#include "engine/device/cuda/libraries.h"
#include "kernels/cuda/matmul_cublaslt.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_sdpa.h"

namespace hawser::device {

bool start_libraries(kernels::cuda::CudaStream* stream, const DeviceRequest&, const char*,
                     kernels::cuda::ErrorText, kernels::cuda::StickyError* failure) {
  stream->sdpa = new cuda_emulation::EmulatedSdpa;
  if (cuda_emulation::cublaslt_record().in_devices)
    stream->cublaslt = new kernels::cuda::CublasLt(cuda_emulation::emulated_cublaslt(), {}, *failure);
  return true;
}

void end_libraries(kernels::cuda::CudaStream* stream) {
  delete stream->sdpa;
  delete stream->cublaslt;
  stream->sdpa = nullptr;
  stream->cublaslt = nullptr;
}

}  // namespace hawser::device
