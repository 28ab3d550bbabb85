// Elementwise kernels. They are limited by memory, so each thread moves kWide elements at once, and grids are
// no larger than the number of blocks that the GPU runs at a time.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packed.h"

namespace hawser::kernels::cuda {

constexpr int kElementThreads = 256;

/// Calls body.at<kWide>(i) for complete chunks of [0, n) and body.at<1>(i) for the rest; calls only at<1>
/// unless `wide`.
template <class Body>
__global__ void __launch_bounds__(kElementThreads) over_elements(const Body body, int64_t n, bool wide) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kElementThreads;
  const int64_t chunks = wide ? n / kWide : 0;
  for (int64_t chunk = thread; chunk < chunks; chunk += threads) body.template at<kWide>(chunk * kWide);
  for (int64_t i = chunks * kWide + thread; i < n; i += threads) body.template at<1>(i);
}

/// `wide`: every array that body accesses allows wide accesses at multiples of kWide.
template <class Body>
void for_each_element(CudaStream& stream, const char* operation, int64_t n, bool wide, const Body& body) {
  if (n <= 0) return;
  const int64_t wanted = blocks_for(n, int64_t{kElementThreads} * (wide ? kWide : 1));
  const int64_t most = int64_t{stream.multiprocessors} * 32;
  launch(stream, operation, {grid(wanted < most ? wanted : most), kElementThreads}, over_elements<Body>, body,
         n, wide);
}

}  // namespace hawser::kernels::cuda
