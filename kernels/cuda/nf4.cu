// Decodes NF4: one thread computes one chunk of numbers.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

/// Returns x rounded to `type`.
__device__ inline float rounded(float x, DType type) {
  if (type == DType::kBf16) return __bfloat162float(__float2bfloat16_rn(x));
  return type == DType::kF16 ? __half2float(__float2half_rn(x)) : x;
}

template <class T>
struct Decoding {
  Nf4Decode a;

  /// Returns the integer that is stored in the bits of a scale.
  __device__ int64_t whole(int64_t scale) const { return __builtin_bit_cast(int32_t, a.scales[scale]); }

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t block = i / kNf4Block, in_block = i - block * kNf4Block;
    const auto* const record = static_cast<const uint8_t*>(a.records) + block * kNf4Record;
    const int64_t run = whole(Nf4Scales::kRun);
    const int64_t in_tensor =
        whole(Nf4Scales::kFirst) + block / run * whole(Nf4Scales::kStride) + block % run;
    const float largest = a.scales[Nf4Scales::kNested + (in_tensor >> whole(Nf4Scales::kShift))];
    const float part = a.scales[Nf4Scales::kAbsmax + record[kNf4Block / 2]] * largest;
    const float absmax = part + a.scales[Nf4Scales::kOffset];
    const auto type = static_cast<DType>(static_cast<int>(a.scales[Nf4Scales::kType]));
    float x[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const int64_t j = in_block + k;
      const int code = j % 2 == 0 ? record[j / 2] >> 4 : record[j / 2] & 15;
      x[k] = rounded(a.scales[Nf4Scales::kValues + code] * absmax, type);
    }
    store<N>(static_cast<T*>(a.y) + i, x);
  }
};

}  // namespace

void nf4_decode(const Nf4Decode& args, Stream& stream) {
  static_assert(kNf4Block % kWide == 0, "wide chunks lie in one record");
  for_type(args.y_type, [&](auto tag) {
    for_each_element(cuda_stream(stream), "nf4_decode", args.n, all_wide({args.y}),
                     Decoding<type_of<decltype(tag)>>{args});
  });
}

}  // namespace hawser::kernels::cuda
