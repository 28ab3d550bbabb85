// Chooses the implementation of a product: cuBLASLt with a fused epilogue; cuBLASLt and separate kernels, if
// the library has no algorithm for the fused product; or our own kernel, if it has none for the product
// either, or is missing.
#include "kernels/cuda/matmul.h"

#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/matmul_fp8.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

/// Returns the product that is passed to the library. The library can add to c, but not to a bias gradient,
/// which therefore is first written to the workspace.
Matmul for_library(const Matmul& args) {
  Matmul m = args;
  if (args.bias_gradient != nullptr && args.accumulate)
    m.bias_gradient = static_cast<char*>(args.workspace) + matmul_workspace(args).bias_at();
  return m;
}

bool by_library(const Matmul& args, CudaStream& stream) {
  if (stream.cublaslt == nullptr || args.k <= 0) return false;
  const Matmul m = for_library(args);
  if (!stream.cublaslt->multiply(m, stream)) return false;
  if (m.bias_gradient != args.bias_gradient)
    add({static_cast<float*>(args.bias_gradient), static_cast<const float*>(args.bias_gradient),
         static_cast<const float*>(m.bias_gradient), args.m},
        stream);
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

/// True if the operands are rounded to fp8, and what follows the product is computed apart because the
/// library has no such epilogue for products of codes.
bool in_parts_of_codes(const Matmul& args, CudaStream& stream) {
  return args.a_fp8.on() && !is_alone(args) && multiplies_codes(alone(args), stream);
}

void sum_bias_gradient(const Matmul& args, CudaStream& stream) {
  const ColumnSum sums = bias_sums(args);
  column_sum(sums, stream);
  if (sums.dbias != args.bias_gradient)
    convert({args.bias_gradient, sums.dbias, args.c_type, DType::kF32, args.m}, stream);
}

void in_parts(const Matmul& args, CudaStream& stream) {
  matmul(alone(args), stream);
  const Activation kind = Activation::kGeluTanh;
  if (args.epilogue == Epilogue::kGeluTanh)
    activation_forward({args.c, args.aux, args.c_type, args.m, args.n, kind, false}, stream);
  if (args.epilogue == Epilogue::kGeluTanhGradient)
    activation_backward({args.c, args.c, args.aux, args.c_type, args.m, args.n, kind, false}, stream);
  if (args.bias_gradient != nullptr) sum_bias_gradient(args, stream);
}

}  // namespace

void matmul(const Matmul& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.m <= 0 || args.n <= 0) return;
  if (in_parts_of_codes(args, cuda)) return in_parts(args, cuda);
  if (args.a_fp8.on()) return matmul_fp8(args, cuda);
  if (by_library(args, cuda)) return;
  if (is_alone(args)) return matmul_tiled(args, cuda);
  in_parts(args, cuda);
}

void prepare_matmul(const Matmul& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (cuda.cublaslt == nullptr || args.m <= 0 || args.n <= 0 || args.k <= 0) return;
  if (in_parts_of_codes(args, cuda)) return prepare_matmul(alone(args), stream);
  if (args.a_fp8.on()) return prepare_matmul_fp8(args, cuda);
  if (!cuda.cublaslt->prepare(for_library(args), cuda) && !is_alone(args))
    prepare_matmul(alone(args), stream);
}

}  // namespace hawser::kernels::cuda
