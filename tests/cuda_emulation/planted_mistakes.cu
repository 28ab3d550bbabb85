// Kernels with one planted mistake each.
#include "tests/cuda_emulation/planted_mistakes.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/tensor_core.h"

namespace hawser::cuda_emulation {
namespace {

using namespace kernels::cuda;

constexpr int kThreads = 256, kBlocks = 4;

struct Shared {
  float value[kThreads];
};

__device__ int place() { return static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x); }

template <bool kBarrier>
__global__ void reversed(float* out) {
  auto& shared = shared_memory<Shared>();
  const int t = static_cast<int>(threadIdx.x);
  shared.value[t] = static_cast<float>(t);
  if (kBarrier) __syncthreads();
  out[place()] = shared.value[kThreads - 1 - t];
}

/// The second round overwrites memory that other threads still read.
__global__ void reused(float* out) {
  auto& shared = shared_memory<Shared>();
  const int t = static_cast<int>(threadIdx.x);
  float sum = 0;
  for (int round = 0; round < 2; ++round) {
    shared.value[t] = static_cast<float>(t + round);
    __syncthreads();
    sum += shared.value[kThreads - 1 - t];
  }
  out[place()] = sum;
}

__global__ void reversed_after_warp_barrier(float* out, int width) {
  auto& shared = shared_memory<Shared>();
  const int t = static_cast<int>(threadIdx.x), first = t / width * width;
  shared.value[t] = static_cast<float>(t);
  __syncwarp();
  out[place()] = shared.value[first + width - 1 - (t - first)];
}

__global__ void written_twice(float* out) {
  out[place()] = 1;
  out[place() ^ 1] = 1;
}

/// Correct: threads write adjacent pairs of bytes.
__global__ void halves(float* out) {
  reinterpret_cast<uint16_t*>(out)[2 * place()] = 1;
  reinterpret_cast<uint16_t*>(out)[2 * (place() ^ 1) + 1] = 1;
}

/// Correct: four threads write the bytes of one word.
__global__ void bytes(float* out) {
  for (int i = 0; i < 4; ++i) reinterpret_cast<uint8_t*>(out)[4 * (place() ^ i) + i] = 1;
}

/// Two threads write the last byte of a word.
__global__ void byte_written_twice(float* out) {
  reinterpret_cast<uint8_t*>(out)[4 * place() + (place() & 1 ? 0 : 3)] = 1;
  if (place() & 1) reinterpret_cast<uint8_t*>(out)[4 * place() - 1] = 2;
}

__global__ void read_from_neighbour(float* out) {
  const int next = (place() + kThreads) % (kThreads * kBlocks);
  out[place()] = 1;
  if (out[next] > 1) out[place()] = 2;
}

/// Rows for ldmatrix: each has 8 numbers, and they are `stride` elements apart.
struct Rows {
  alignas(16) bf16 element[kThreads * 12];
};

/// Each lane writes a row and gives the address of another lane's row to ldmatrix.
template <bool kBarrier>
__global__ void matrices(float* out, int stride) {
  auto& shared = shared_memory<Rows>();
  const int t = static_cast<int>(threadIdx.x), other = t ^ (kWarpLanes - 1);
  for (int i = 0; i < 8; ++i) shared.element[t * stride + i] = from_float<bf16>(static_cast<float>(t % 32));
  if (kBarrier) __syncwarp();
  uint32_t words[4];
  tensor_core::load_matrices(words, shared.element + other * stride);
  out[place()] = __uint_as_float(words[t % 4] << 16);
}

__global__ void half_a_block(float* out) {
  if (threadIdx.x < kThreads / 2) __syncthreads();
  out[place()] = 0;
}

__global__ void half_a_warp(float* out) {
  float x = 1;
  if (threadIdx.x % kWarpLanes < kWarpLanes / 2) x = __shfl_xor_sync(kAllLanes, x, 1);
  out[place()] = x;
}

void run(float* out, CudaStream& stream, void (*kernel)(float*), size_t shared_bytes) {
  launch(stream, "planted", {grid(kBlocks), kThreads, shared_bytes}, kernel, out);
}

}  // namespace

void reversed_with_barrier(float* out, CudaStream& stream) {
  run(out, stream, reversed<true>, sizeof(Shared));
}
void reversed_without_barrier(float* out, CudaStream& stream) {
  run(out, stream, reversed<false>, sizeof(Shared));
}
void reused_without_barrier(float* out, CudaStream& stream) { run(out, stream, reused, sizeof(Shared)); }
void warp_reversed_with_warp_barrier(float* out, CudaStream& stream) {
  launch(stream, "planted", {grid(kBlocks), kThreads, sizeof(Shared)}, reversed_after_warp_barrier, out,
         kWarpLanes);
}
void block_reversed_with_warp_barrier(float* out, CudaStream& stream) {
  launch(stream, "planted", {grid(kBlocks), kThreads, sizeof(Shared)}, reversed_after_warp_barrier, out,
         kThreads);
}
void two_writers(float* out, CudaStream& stream) { run(out, stream, written_twice, 0); }
void halves_of_a_word(float* out, CudaStream& stream) { run(out, stream, halves, 0); }
void bytes_of_a_word(float* out, CudaStream& stream) { run(out, stream, bytes, 0); }
void two_writers_of_a_byte(float* out, CudaStream& stream) { run(out, stream, byte_written_twice, 0); }
void neighbour_block_read(float* out, CudaStream& stream) { run(out, stream, read_from_neighbour, 0); }
void barrier_for_half_a_block(float* out, CudaStream& stream) { run(out, stream, half_a_block, 0); }
void shuffle_for_half_a_warp(float* out, CudaStream& stream) { run(out, stream, half_a_warp, 0); }
void matrices_with_warp_barrier(float* out, CudaStream& stream) {
  launch(stream, "planted", {grid(kBlocks), kThreads, sizeof(Rows)}, matrices<true>, out, 8);
}
void matrices_without_barrier(float* out, CudaStream& stream) {
  launch(stream, "planted", {grid(kBlocks), kThreads, sizeof(Rows)}, matrices<false>, out, 8);
}
void matrices_at_odd_places(float* out, CudaStream& stream) {
  launch(stream, "planted", {grid(kBlocks), kThreads, sizeof(Rows)}, matrices<true>, out, 12);
}
void beyond_shared_memory(float* out, CudaStream& stream) {
  run(out, stream, reversed<true>, sizeof(Shared) - 16);
}

}  // namespace hawser::cuda_emulation
