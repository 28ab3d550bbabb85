// Random operands for timing products. Zeros would be misleading: the speed of a GPU depends on how many bits
// change, and zeros are the fastest.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

/// Returns a value in [-1, 1) that depends only on the position.
__device__ float noise(int64_t i) {
  uint32_t x = (static_cast<uint32_t>(i) ^ static_cast<uint32_t>(i >> 32)) + 1;  // the mixing steps would map
                                                                                 // 0 to 0
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  x ^= x >> 16;
  return static_cast<float>(static_cast<int32_t>(x)) * (1.0f / 2147483648.0f);
}

template <class T>
struct Noise {
  T* out;

  template <int N>
  __device__ void at(int64_t i) const {
    float x[N];
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = noise(i + k);
    store<N>(out + i, x);
  }
};

}  // namespace

void fill_random(void* out, DType type, int64_t elements, CudaStream& stream) {
  for_type(type, [&](auto tag) {
    using T = type_of<decltype(tag)>;
    for_each_element(stream, "matmul", elements, all_wide({out}), Noise<T>{static_cast<T*>(out)});
  });
}

}  // namespace hawser::kernels::cuda
