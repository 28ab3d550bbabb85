// Encodes an operand of a product for cuBLASLt, whose products of fp8 sum over contiguous codes: as it is
// stored, or transposed. A block reads 128 rows of 64 columns, each thread four rows of kWide columns, so
// that four codes of a column are one word in shared memory.
#include "kernels/cuda/fp8_numbers.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/matmul_fp8.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kThreads = 256, kColumns = 64, kRows = 128, kWord = 4;
constexpr int kLanes = kColumns / kWide;  // threads that share a row
static_assert(kThreads / kLanes * kWord == kRows);

/// Words of four rows, by column; one more, so that columns begin in different banks.
struct CodeTile {
  uint32_t word[kColumns][kRows / kWord + 1];
};

template <class T>
__global__ void __launch_bounds__(kThreads) encode_kernel(const Fp8Codes a, const Fp8Format f, bool wide) {
  const Fp8Scale scale(f, bits_of(*a.maximum), a.margin);
  const Fp8Rounding rounding(scale);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *a.scale = scale.up();
  const int lane = static_cast<int>(threadIdx.x) % kLanes, own = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t column0 = int64_t{blockIdx.x} * kColumns, row0 = int64_t{blockIdx.y} * kRows;
  const int64_t column = column0 + lane * kWide, row = row0 + own * kWord;
  const int64_t columns = a.n - column;  // 0 or less beyond the last; a multiple of kWide
  uint32_t code[kWide] = {};
#pragma unroll
  for (int r = 0; r < kWord; ++r) {
    float x[kWide];
    load_some(x, static_cast<const T*>(a.x) + (row + r) * a.stride + column, row < a.rows ? columns : 0,
              wide);
    uint32_t low = 0, high = 0;
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      const uint32_t one = rounding.code(x[k]);
      code[k] |= one << (8 * r);
      (k < kWide / 2 ? low : high) |= one << (8 * (k % (kWide / 2)));
    }
    if (!a.transposed && row < a.rows && columns > 0) {
      auto* const to = reinterpret_cast<Packed<uint32_t, 2>*>(a.codes + (row + r) * a.n + column);
      *to = {{low, high}};
    }
  }
  if (!a.transposed) return;
  auto& tile = shared_memory<CodeTile>();
#pragma unroll
  for (int k = 0; k < kWide; ++k) tile.word[lane * kWide + k][own] = code[k];
  __syncthreads();
  constexpr int kBytes = 16, kInColumn = kRows / kBytes;  // stores of 16 codes
  for (int i = static_cast<int>(threadIdx.x); i < kColumns * kInColumn; i += kThreads) {
    const int c = i / kInColumn, first = i % kInColumn;
    const int64_t to_column = column0 + c, to_row = row0 + first * kBytes;
    if (to_column >= a.n || to_row >= a.rows) continue;
    const uint32_t* const word = &tile.word[c][first * kBytes / kWord];
    auto* const to = reinterpret_cast<Packed<uint32_t, 4>*>(a.codes + to_column * a.rows + to_row);
    *to = {{word[0], word[1], word[2], word[3]}};
  }
}

}  // namespace

void encode_fp8(const Fp8Codes& args, CudaStream& stream) {
  for_type(args.x_type, [&](auto tag) {
    const dim3 tiles(static_cast<unsigned>(blocks_for(args.n, kColumns)),
                     static_cast<unsigned>(blocks_for(args.rows, kRows)));
    launch(stream, "matmul", {tiles, kThreads, args.transposed ? sizeof(CodeTile) : 0},
           encode_kernel<type_of<decltype(tag)>>, args, fp8_format(args.type),
           wide_rows(args.x, args.stride, args.x_type));
  });
}

}  // namespace hawser::kernels::cuda
