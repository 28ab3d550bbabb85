// Kernels with one mistake each, and correct versions: the emulator must report the former and not the
// latter.
#pragma once

#include "kernels/cuda/cuda_stream.h"

namespace hawser::cuda_emulation {

constexpr int kPlantedFloats = 1024;

/// Each kernel writes kPlantedFloats floats of `out`, by 4 blocks of 256 threads.
using Planted = void (*)(float* out, kernels::cuda::CudaStream& stream);

void reversed_with_barrier(float* out, kernels::cuda::CudaStream& stream);
void reversed_without_barrier(float* out, kernels::cuda::CudaStream& stream);
void reused_without_barrier(float* out, kernels::cuda::CudaStream& stream);
void warp_reversed_with_warp_barrier(float* out, kernels::cuda::CudaStream& stream);
void block_reversed_with_warp_barrier(float* out, kernels::cuda::CudaStream& stream);
void two_writers(float* out, kernels::cuda::CudaStream& stream);
void halves_of_a_word(float* out, kernels::cuda::CudaStream& stream);
void bytes_of_a_word(float* out, kernels::cuda::CudaStream& stream);
void two_writers_of_a_byte(float* out, kernels::cuda::CudaStream& stream);
void neighbour_block_read(float* out, kernels::cuda::CudaStream& stream);
void barrier_for_half_a_block(float* out, kernels::cuda::CudaStream& stream);
void shuffle_for_half_a_warp(float* out, kernels::cuda::CudaStream& stream);
void matrices_with_warp_barrier(float* out, kernels::cuda::CudaStream& stream);
void matrices_without_barrier(float* out, kernels::cuda::CudaStream& stream);
void matrices_at_odd_places(float* out, kernels::cuda::CudaStream& stream);
void beyond_shared_memory(float* out, kernels::cuda::CudaStream& stream);

}  // namespace hawser::cuda_emulation
