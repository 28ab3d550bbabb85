// Emulated libraries for the code that opens NVIDIA's (libraries_nvidia.cc): cuBLASLt by loops, and the CPU's
// kernels behind the interface to cuDNN; and functions by which a program that has opened the plugin inspects
// them.
#include "kernels/cuda/cudnn/sdpa_cudnn.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_sdpa.h"

namespace hawser::kernels::cuda {

const CublasLtApi* open_cublaslt(char*, size_t) { return &cuda_emulation::emulated_cublaslt(); }

Sdpa* open_cudnn_sdpa(bool, ErrorText) { return new cuda_emulation::EmulatedSdpa; }

}  // namespace hawser::kernels::cuda

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED hawser::cuda_emulation::CublasLtRecord* hawser_emulated_cublaslt() {
  return &hawser::cuda_emulation::cublaslt_record();
}
EXPORTED int64_t hawser_emulated_sdpa_plans() { return hawser::cuda_emulation::sdpa_plans_made(); }
