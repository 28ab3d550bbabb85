// The emulated GPU has no cuBLASLt: our own kernel multiplies. Attention is the CPU's, behind the interface
// to cuDNN.
#include "engine/device/cuda/libraries.h"
#include "tests/cuda_emulation/emulated_sdpa.h"

namespace hawser::device {

bool start_libraries(kernels::cuda::CudaStream* stream, const DeviceRequest&, const char*,
                     kernels::cuda::ErrorText, kernels::cuda::StickyError*) {
  stream->sdpa = new cuda_emulation::EmulatedSdpa;
  return true;
}

void end_libraries(kernels::cuda::CudaStream* stream) {
  delete stream->sdpa;
  stream->sdpa = nullptr;
}

}  // namespace hawser::device
