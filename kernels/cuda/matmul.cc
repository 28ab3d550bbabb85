// Chooses the implementation of a product: cuBLASLt with a fused epilogue; cuBLASLt and separate kernels, if
// the library has no algorithm for the fused product; or our own kernel, if it has none for the product
// either, or is missing.
#include "kernels/cuda/matmul.h"

#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int64_t kAlignment = 256, kMostLibraryBytes = int64_t{32} << 20, kCopiesOfC = 16;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Describes the column sums for a bias gradient: over the same rows as the product, and in its workspace,
/// which is free by then.
ColumnSum bias_sums(const Matmul& m) {
  ColumnSum s;
  s.dbias = m.bias_gradient;
  s.dy = m.a;
  s.type = m.a_type;
  s.rows = m.k, s.n = m.m, s.stride = m.lda;
  s.accumulate = m.accumulate;
  s.workspace = m.workspace;
  return s;
}

/// Returns the product that is passed to the library. The library can add to c, but not to a bias gradient,
/// which therefore is first written to the workspace.
Matmul for_library(const Matmul& args) {
  Matmul m = args;
  if (args.bias_gradient != nullptr && args.accumulate)
    m.bias_gradient =
        reinterpret_cast<float*>(static_cast<char*>(args.workspace) + matmul_workspace(args).bias_at());
  return m;
}

bool by_library(const Matmul& args, CudaStream& stream) {
  if (stream.cublaslt == nullptr || args.k <= 0) return false;
  const Matmul m = for_library(args);
  if (!stream.cublaslt->multiply(m, stream)) return false;
  if (m.bias_gradient != args.bias_gradient)
    add({args.bias_gradient, args.bias_gradient, m.bias_gradient, args.m}, stream);
  return true;
}

bool is_alone(const Matmul& m) { return m.epilogue == Epilogue::kNone && m.bias_gradient == nullptr; }

/// Returns the product without its fused operation.
Matmul alone(const Matmul& args) {
  Matmul m = args;
  m.epilogue = Epilogue::kNone;
  m.bias_gradient = nullptr;
  if (args.epilogue == Epilogue::kGeluTanh) m.c = args.aux;
  m.aux = nullptr;
  return m;
}

void in_parts(const Matmul& args, CudaStream& stream) {
  matmul(alone(args), stream);
  const Activation kind = Activation::kGeluTanh;
  if (args.epilogue == Epilogue::kGeluTanh)
    activation_forward({args.c, args.aux, args.c_type, args.m, args.n, kind, false}, stream);
  if (args.epilogue == Epilogue::kGeluTanhGradient)
    activation_backward({args.c, args.c, args.aux, args.c_type, args.m, args.n, kind, false}, stream);
  if (args.bias_gradient != nullptr) column_sum(bias_sums(args), stream);
}

}  // namespace

MatmulWorkspace matmul_workspace(const Matmul& args) {
  MatmulWorkspace w;
  if (args.m <= 0 || args.n <= 0 || args.k <= 0) return w;
  const int64_t bf16_bytes = dtype_bytes(DType::kBf16);
  if (product_type(args) == DType::kBf16 && args.a_type == DType::kF32)
    w.a_bytes = aligned(args.m * args.k * bf16_bytes);
  if (product_type(args) == DType::kBf16 && args.b_type == DType::kF32)
    w.b_bytes = aligned(args.k * args.n * bf16_bytes);
  // cuBLASLt can only add a bias of the result's type.
  if (args.c_type == DType::kBf16 && args.bias_type == DType::kF32)
    w.bias_bytes = aligned(args.n * bf16_bytes);
  if (args.bias_gradient != nullptr) w.bias_bytes = aligned(args.m * dtype_bytes(DType::kF32));
  // Partial sums of a split k: a few copies of c in fp32, but no more than the library would use by itself.
  const int64_t copies = aligned(kCopiesOfC * args.m * args.n * dtype_bytes(DType::kF32));
  w.library_bytes = copies < kMostLibraryBytes ? copies : kMostLibraryBytes;
  return w;
}

int64_t matmul_workspace_bytes(const Matmul& args, int32_t workers) {
  const int64_t product = matmul_workspace(args).bytes();
  if (args.bias_gradient == nullptr) return product;
  const int64_t sums = column_sum_workspace_bytes(bias_sums(args), workers);
  return product > sums ? product : sums;
}

void matmul(const Matmul& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.m <= 0 || args.n <= 0) return;
  if (by_library(args, cuda)) return;
  if (is_alone(args)) return matmul_tiled(args, cuda);
  in_parts(args, cuda);
}

void prepare_matmul(const Matmul& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (cuda.cublaslt == nullptr || args.m <= 0 || args.n <= 0 || args.k <= 0) return;
  if (!cuda.cublaslt->prepare(for_library(args), cuda) && !is_alone(args))
    prepare_matmul(alone(args), stream);
}

}  // namespace hawser::kernels::cuda
