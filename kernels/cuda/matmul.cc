// Which of the two ways a product takes: cuBLASLt, and our own kernel where that library is missing or has no
// algorithm.
#include "kernels/cuda/matmul.h"

#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int64_t kAlignment = 256, kMostLibraryBytes = int64_t{32} << 20, kCopiesOfC = 16;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

MatmulWorkspace matmul_workspace(const Matmul& args) {
  MatmulWorkspace w;
  if (args.m <= 0 || args.n <= 0 || args.k <= 0) return w;
  const int64_t bf16_bytes = dtype_bytes(DType::kBf16);
  if (multiplies_bf16(args) && args.a_type == DType::kF32) w.a_bytes = aligned(args.m * args.k * bf16_bytes);
  if (multiplies_bf16(args) && args.b_type == DType::kF32) w.b_bytes = aligned(args.k * args.n * bf16_bytes);
  // cuBLASLt adds a bias of the result's type only.
  if (args.c_type == DType::kBf16 && args.bias_type == DType::kF32)
    w.bias_bytes = aligned(args.n * bf16_bytes);
  // Partial sums of a cut k: a few copies of c in fp32, and no more than the library asks for on its own.
  const int64_t copies = aligned(kCopiesOfC * args.m * args.n * dtype_bytes(DType::kF32));
  w.library_bytes = copies < kMostLibraryBytes ? copies : kMostLibraryBytes;
  return w;
}

int64_t matmul_workspace_bytes(const Matmul& args, int32_t) { return matmul_workspace(args).bytes(); }

void matmul(const Matmul& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.m <= 0 || args.n <= 0) return;
  const bool by_library = cuda.cublaslt != nullptr && args.k > 0 && cuda.cublaslt->multiply(args, cuda);
  if (!by_library) matmul_tiled(args, cuda);
}

}  // namespace hawser::kernels::cuda
