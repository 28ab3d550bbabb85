// Products whose operands are rounded to fp8 (Matmul::a_fp8): by cuBLASLt over codes, or as bf16 products of
// the rounded numbers, which bf16 holds exactly. The library multiplies codes on GPUs with such tensor
// cores, if 16 divides all sizes (kFp8Sizes). Each part of an operand has a power of two of its own, so each
// makes a product of its own: for some of the columns or of the rows of the result, or an addend of all of
// it.
#pragma once

#include "kernels/cuda/cuda_stream.h"
#include "kernels/include/fp8_sizes.h"
#include "kernels/include/matmul.h"

namespace hawser::kernels::cuda {

/// codes = x[rows, n] as E4M3 or E5M2 (fp8_round.h, Fp8Tile::kTensor), dense, [n, rows] if `transposed`. 16
/// divides rows and n, and codes begin at a multiple of 16 bytes.
struct Fp8Codes {
  uint8_t* codes = nullptr;
  float* scale = nullptr;  ///< receives the power of two
  const void* x = nullptr;
  DType x_type = DType::kF32, type = DType::kE4m3Block;
  int64_t rows = 0, n = 0, stride = 0;
  const float* maximum = nullptr;
  int32_t margin = 0;
  bool transposed = false;
};
void encode_fp8(const Fp8Codes& args, CudaStream& stream);

/// The factors of the sums of a product of codes, on the device.
struct Fp8Scales {
  const float *a = nullptr, *b = nullptr;
};

/// True if the library multiplies codes of these operands.
bool multiplies_codes(const Matmul& args, CudaStream& stream);
void matmul_fp8(const Matmul& args, CudaStream& stream);
void prepare_matmul_fp8(const Matmul& args, CudaStream& stream);

}  // namespace hawser::kernels::cuda
