// Encodes and decodes records of integers. A warp encodes a record: each lane has the numbers `lane` and
// `lane` + 32, which is also how codes of four bits share a byte. One thread decodes one chunk of numbers.
#include "kernels/cuda/block_record.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kWarps = 8;
static_assert(kIntBlock == 2 * kWarpLanes);

__device__ inline unsigned magnitude_bits(float x) { return __builtin_bit_cast(unsigned, x) & 0x7fffffffu; }

/// Returns the integer nearest to x, ties to even: a sum with this number rounds to an integer, which is then
/// in its low bits.
__device__ inline unsigned nearest(float x) {
  const float shifted = x + 12582912.0f;
  return __builtin_bit_cast(unsigned, shifted);
}

template <class Block>
__device__ inline void put_codes(uint8_t* record, int lane, unsigned low, unsigned high) {
  if (Block::kCodes == kIntBlock) {
    record[lane] = static_cast<uint8_t>(low);
    record[lane + kWarpLanes] = static_cast<uint8_t>(high);
  } else {
    record[lane] = static_cast<uint8_t>((low & 15) | (high & 15) << 4);
  }
}

template <class Block, class T>
__global__ void __launch_bounds__(kWarps* kWarpLanes) encode_kernel(const BlockEncode a, int64_t records) {
  const int lane = lane_of_thread();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t r = static_cast<int64_t>(blockIdx.x) * kWarps + warp_of_thread(); r < records; r += step) {
    const T* const from = static_cast<const T*>(a.x) + r * kIntBlock;
    const int64_t n = a.n - r * kIntBlock;
    const float low = lane < n ? to_float(from[lane]) : 0.0f;
    const float high = lane + kWarpLanes < n ? to_float(from[lane + kWarpLanes]) : 0.0f;
    const unsigned a_low = magnitude_bits(low), a_high = magnitude_bits(high);
    unsigned absmax = (warp_most(a_low > a_high ? a_low : a_high) + 0xffffu) >> 16;
    const bool finite = absmax < 0x7f80u;
    if (!finite) absmax = kAbsmaxNan;
    if (absmax < kLeastAbsmax) absmax = 0;
    unsigned codes[2] = {};
    if (finite && absmax > 0) {
      const float factor = Block::kMost / __builtin_bit_cast(float, absmax << 16);
      codes[0] = nearest(low * factor), codes[1] = nearest(high * factor);
    }
    uint8_t* const record = static_cast<uint8_t*>(a.records) + r * Block::kBytes;
    put_codes<Block>(record, lane, codes[0], codes[1]);
    if (lane < 2) record[Block::kCodes + lane] = static_cast<uint8_t>(absmax >> (8 * lane));
  }
}

template <class Block, class T>
struct Decoding {
  BlockDecode a;

  template <int N>
  __device__ void at(int64_t i) const {
    float x[N];
    load_numbers<Block, N>(x, a.records, i);
    store<N>(static_cast<T*>(a.y) + i, x);
  }
};

template <class Block>
void encode(const BlockEncode& args, CudaStream& stream) {
  const int64_t records = (args.n + kIntBlock - 1) / kIntBlock;
  if (records == 0) return;
  const int64_t wanted = blocks_for(records, kWarps), most = int64_t{stream.multiprocessors} * 32;
  for_type(args.x_type, [&](auto tag) {
    launch(stream, "block_encode", {grid(wanted < most ? wanted : most), kWarps * kWarpLanes},
           encode_kernel<Block, type_of<decltype(tag)>>, args, records);
  });
}

template <class Block>
void decode(const BlockDecode& args, CudaStream& stream) {
  static_assert(kIntBlock / 2 % kWide == 0, "wide chunks lie in one half of one record");
  for_type(args.y_type, [&](auto tag) {
    for_each_element(stream, "block_decode", args.n, all_wide({args.y}),
                     Decoding<Block, type_of<decltype(tag)>>{args});
  });
}

}  // namespace

void block_encode(const BlockEncode& args, Stream& stream) {
  args.type == DType::kI8Block ? encode<I8Block>(args, cuda_stream(stream))
                               : encode<I4Block>(args, cuda_stream(stream));
}

void block_decode(const BlockDecode& args, Stream& stream) {
  args.type == DType::kI8Block ? decode<I8Block>(args, cuda_stream(stream))
                               : decode<I4Block>(args, cuda_stream(stream));
}

}  // namespace hawser::kernels::cuda
