// How a program that has opened the emulated plugin breaks its GPU, or gives it cuBLASLt.
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/streams.h"

using hawser::cuda_emulation::cublaslt_record;

extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_break() {
  hawser::cuda_emulation::break_device(cudaErrorIllegalAddress);
}

/// Devices opened from now on multiply by it; one rank at a time, because it keeps one record. `epilogues`:
/// it has those that take along more than a bias.
extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_cublaslt(bool present,
                                                                                    bool epilogues) {
  cublaslt_record() = {};
  cublaslt_record().in_devices = present;
  cublaslt_record().epilogues = epilogues;
}

/// Products given to it so far: all, and those with GELU, its gradient, the gradient of a bias.
extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_products(int64_t* counts) {
  counts[0] = cublaslt_record().products;
  counts[1] = cublaslt_record().gelu;
  counts[2] = cublaslt_record().gelu_gradients;
  counts[3] = cublaslt_record().bias_gradients;
}
