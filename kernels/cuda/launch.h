// Launches kernels; no other file does. It does not use <<<>>>, so that g++ can compile the kernels too
// (tests/cuda_emulation), and it checks every launch.
#pragma once

#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/sizes/row_parts.h"

namespace hawser::kernels::cuda {

constexpr int kWarpLanes = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

/// threads: a multiple of kWarpLanes. shared_bytes: the size of the kernel's struct (shared_memory.h).
struct LaunchShape {
  dim3 blocks;
  int threads = 0;
  size_t shared_bytes = 0;
};

/// Queues kernel(args...) on the stream. `operation` names it in errors.
template <class... Params, class... Args>
void launch(CudaStream& stream, const char* operation, const LaunchShape& shape, void (*kernel)(Params...),
            const Args&... args) {
  constexpr size_t kAllowedWithoutAsking = 48 << 10;
  if (shape.shared_bytes > kAllowedWithoutAsking &&
      !stream.succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(shape.shared_bytes)),
                        operation)) {
    return;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream.handle;
  stream.succeeded(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), operation);
}

/// Returns a one-dimensional grid.
inline dim3 grid(int64_t blocks) { return dim3(static_cast<unsigned>(blocks)); }

}  // namespace hawser::kernels::cuda
