// How a program that has opened the emulated plugin breaks its GPU.
#include "tests/cuda_emulation/streams.h"

extern "C" __attribute__((visibility("default"))) void hawser_emulated_gpu_break() {
  hawser::cuda_emulation::break_device(cudaErrorIllegalAddress);
}
