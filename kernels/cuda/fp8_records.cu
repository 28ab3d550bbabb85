// Encodes and decodes records of fp8. A warp encodes a record, four numbers a lane; a thread decodes one
// number at a time, because rows may begin anywhere. The format is an argument, as on the CPU.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/fp8_numbers.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"
#include "kernels/include/fp8_records.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kWarps = 8, kPerLane = static_cast<int>(kFp8Block) / kWarpLanes;

template <class T>
__global__ void __launch_bounds__(kWarps* kWarpLanes)
    encode_kernel(const Fp8Encode a, const Fp8Format f, int64_t in_row, int64_t records) {
  const int lane = lane_of_thread();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t r = static_cast<int64_t>(blockIdx.x) * kWarps + warp_of_thread(); r < records; r += step) {
    const int64_t column = r % in_row * kFp8Block, n = a.n - column;
    const T* const from = static_cast<const T*>(a.x) + r / in_row * a.n + column;
    float x[kPerLane];
    unsigned most = 0;
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      const int i = lane + k * kWarpLanes;
      x[k] = i < n ? to_float(from[i]) : 0.0f;
      const unsigned magnitude = bits_of(x[k]) & 0x7fffffffu;
      most = magnitude > most ? magnitude : most;
    }
    most = warp_most(most);
    const bool given = a.maximum != nullptr, finite = given || most < 0x7f800000u;
    const Fp8Scale scale(f, given ? bits_of(*a.maximum) : most, given ? a.margin : 0);
    const Fp8Rounding rounding(scale);
    uint8_t* const record = static_cast<uint8_t*>(a.records) + r * kFp8Record;
#pragma unroll
    for (int k = 0; k < kPerLane; ++k)
      record[lane + k * kWarpLanes] =
          static_cast<uint8_t>(finite ? rounding.code(x[k]) : static_cast<unsigned>(kFp8Nan));
    if (lane == 0) record[kFp8Block] = static_cast<uint8_t>(finite ? scale.exponent : kFp8NanExponent);
  }
}

__device__ inline float number_of(const Fp8Format& f, unsigned code, unsigned exponent) {
  const unsigned m = code & 0x7fu, up = static_cast<unsigned>(23 - f.fraction_bits);
  unsigned bits = (m << up) + (static_cast<unsigned>(127 - f.bias) << 23);
  if (m < 1u << f.fraction_bits)
    bits = bits_of(static_cast<float>(m) *
                   float_of(static_cast<unsigned>(128 - f.bias - f.fraction_bits) << 23));
  if (m > static_cast<unsigned>(f.largest_code)) bits |= 0x7f800000u;
  return float_of(bits | (code & 0x80u) << 24) * float_of(exponent << 23);
}

template <class T>
struct Decoding {
  Fp8Decode a;
  Fp8Format f;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t in_row = (a.n + kFp8Block - 1) / kFp8Block;
    float x[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const int64_t row = (i + k) / a.n, column = i + k - row * a.n;
      const auto* const record =
          static_cast<const uint8_t*>(a.records) + (row * in_row + column / kFp8Block) * kFp8Record;
      x[k] = number_of(f, record[column % kFp8Block], record[kFp8Block]);
    }
    store<N>(static_cast<T*>(a.y) + i, x);
  }
};

}  // namespace

void fp8_encode(const Fp8Encode& args, Stream& stream) {
  CudaStream& s = cuda_stream(stream);
  const int64_t in_row = (args.n + kFp8Block - 1) / kFp8Block, records = args.rows * in_row;
  if (records == 0) return;
  const int64_t wanted = blocks_for(records, kWarps), most = int64_t{s.multiprocessors} * 32;
  for_type(args.x_type, [&](auto tag) {
    launch(s, "fp8_encode", {grid(wanted < most ? wanted : most), kWarps * kWarpLanes},
           encode_kernel<type_of<decltype(tag)>>, args, fp8_format(args.type), in_row, records);
  });
}

void fp8_decode(const Fp8Decode& args, Stream& stream) {
  for_type(args.y_type, [&](auto tag) {
    for_each_element(cuda_stream(stream), "fp8_decode", args.rows * args.n, all_wide({args.y}),
                     Decoding<type_of<decltype(tag)>>{args, fp8_format(args.type)});
  });
}

}  // namespace hawser::kernels::cuda
