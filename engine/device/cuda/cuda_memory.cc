// Memory of a GPU and pinned host memory. Both are allocated with the engine, never in a step.
#include <string.h>

#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/peers.h"

namespace hawser::device {

using kernels::cuda::ContextScope;

namespace {

constexpr uintptr_t kAlignment = 4096;
/// The driver maps memory in pieces of this size and aligns allocations of whole pieces to it; smaller
/// allocations may start anywhere.
constexpr int64_t kPiece = int64_t{2} << 20;

bool is_aligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % kAlignment == 0; }

/// Returns the first aligned address after `memory`, and stores the address of the allocation in front of it.
/// The driver promises no alignment for pinned memory: small allocations share pages, at multiples of 512
/// bytes.
char* begin_page_behind(void* memory) {
  const uintptr_t past = reinterpret_cast<uintptr_t>(memory) % kAlignment;
  char* const begin = static_cast<char*>(memory) + (kAlignment - past);
  memcpy(begin - sizeof(memory), &memory, sizeof(memory));
  return begin;
}

}  // namespace

Status CudaDevice::memory(int64_t* available, int64_t* total) noexcept {
  const ContextScope scope(&context_);
  size_t free_bytes = 0, total_bytes = 0;
  const Status status = done(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  *available = static_cast<int64_t>(free_bytes);
  *total = static_cast<int64_t>(total_bytes);
  return status;
}

Status CudaDevice::allocate(int64_t bytes, void** out) noexcept {
  const ContextScope scope(&context_);
  const int64_t whole = (bytes + kPiece - 1) / kPiece * kPiece;
  *out = nullptr;
  void* memory = nullptr;
  const cudaError_t result = cudaMalloc(&memory, static_cast<size_t>(whole));
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return failed(Code::kOutOfMemory,
                  "out of memory on GPU %d (%s): the arena needs %lld bytes, %lld of %lld are available",
                  static_cast<int>(info_.index), name_, static_cast<long long>(bytes),
                  static_cast<long long>(free_bytes), static_cast<long long>(total_bytes));
  }
  if (result != cudaSuccess) return queued(result, "cudaMalloc");
  if (const Status status = prepare(memory, whole, "cudaMalloc"); status != 0) {
    cudaFree(memory);
    return status;
  }
  *out = memory;
  return 0;
}

Status CudaDevice::prepare(void* memory, int64_t bytes, const char* allocator) {
  if (!is_aligned(memory))
    return failed(Code::kInternal, "%s: %p is not aligned to %d bytes", allocator, memory,
                  static_cast<int>(kAlignment));
  const Status status = fill_zero(memory, bytes, StreamId::kCompute);
  return status != 0 ? status : synchronize(StreamId::kCompute);
}

void CudaDevice::release(void* memory, int64_t) noexcept {
  const ContextScope scope(&context_);
  cudaFree(memory);
  cudaGetLastError();  // clears the error of a broken device, which has been reported elsewhere
}

Status CudaDevice::allocate_for_peers(int64_t bytes, void** out) noexcept {
  const ContextScope scope(&context_);
  const int64_t whole = (bytes + kPiece - 1) / kPiece * kPiece;
  *out = nullptr;
  void* memory = nullptr;
  char why[320] = "";
  if (const Status status = allocate_peer_memory(whole, &memory, why, sizeof why); status != 0) {
    cudaGetLastError();
    return failed(static_cast<Code>(status), "%s", why);
  }
  if (const Status status = prepare(memory, whole, "ncclMemAlloc"); status != 0) {
    release_peer_memory(memory);
    return status;
  }
  *out = memory;
  return 0;
}

void CudaDevice::release_for_peers(void* memory, int64_t) noexcept {
  const ContextScope scope(&context_);
  release_peer_memory(memory);
  cudaGetLastError();
}

Status CudaDevice::allocate_host(int64_t bytes, void** out) noexcept {
  const ContextScope scope(&context_);
  *out = nullptr;
  void* memory = nullptr;
  const cudaError_t result =
      cudaHostAlloc(&memory, static_cast<size_t>(bytes) + kAlignment, cudaHostAllocPortable);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return failed(
        Code::kOutOfMemory,
        "out of memory: %lld bytes of pinned host memory for GPU %d are needed (ulimit -l and the host's "
        "memory limit them)",
        static_cast<long long>(bytes), static_cast<int>(info_.index));
  }
  if (result != cudaSuccess) return queued(result, "cudaHostAlloc");
  char* const begin = begin_page_behind(memory);
  memset(begin, 0, static_cast<size_t>(bytes));
  *out = begin;
  return 0;
}

void CudaDevice::release_host(void* memory, int64_t) noexcept {
  const ContextScope scope(&context_);
  void* whole = nullptr;
  memcpy(&whole, static_cast<char*>(memory) - sizeof(whole), sizeof(whole));
  cudaFreeHost(whole);
  cudaGetLastError();
}

}  // namespace hawser::device
