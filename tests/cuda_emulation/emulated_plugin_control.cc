// Functions by which a program that has opened an emulated plugin breaks its GPU, gives it cuBLASLt, or makes
// it one of another kind.
#include "tests/comm/nccl/fake_nccl.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_sdpa.h"
#include "tests/cuda_emulation/streams.h"

using hawser::cuda_emulation::cublaslt_record;

extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_break() {
  hawser::cuda_emulation::break_device(cudaErrorIllegalAddress);
}

/// Devices opened from now on multiply by cuBLASLt; only one rank at a time, because there is one record.
/// `epilogues`: it has epilogues other than a bias.
extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_cublaslt(bool present,
                                                                                    bool epilogues) {
  cublaslt_record() = {};
  cublaslt_record().in_devices = present;
  cublaslt_record().epilogues = epilogues;
}

/// Sets the workspace that each plan of attention needs, on devices opened from now on.
extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_sdpa(int64_t needed_bytes) {
  hawser::cuda_emulation::sdpa_needed_bytes() = needed_bytes;
}

/// Returns the numbers of products so far: all, and those with GELU, its gradient, the gradient of a bias.
extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_products(int64_t* counts) {
  counts[0] = cublaslt_record().products;
  counts[1] = cublaslt_record().gelu;
  counts[2] = cublaslt_record().gelu_gradients;
  counts[3] = cublaslt_record().bias_gradients;
}

/// Returns the ranges that NCCL has registered now, and the messages that were outside of them.
extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_registrations(int64_t* counts) {
  counts[0] = hawser::testing::fake_registrations().ranges;
  counts[1] = hawser::testing::fake_registrations().outside;
}

/// Registrations of this rank fail in every group; -1: of none.
extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_fail_registrations(int rank) {
  hawser::testing::fail_registrations_of(rank);
}

extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_capability(int tenfold) {
  hawser::cuda_emulation::set_capability(tenfold);
}

extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_name(int device,
                                                                                const char* name) {
  hawser::cuda_emulation::set_name(device, name);
}
