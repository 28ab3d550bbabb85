// Only arithmetic: no memory of a device, no library.
#include "kernels/cuda/sizes/workspace_bytes.h"

#include "kernels/cuda/sizes/fp8_workspace.h"
#include "kernels/cuda/sizes/matmul_workspace.h"
#include "kernels/cuda/sizes/row_parts.h"
#include "kernels/cuda/sizes/sdpa_shape.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int64_t kMostLibraryBytes = int64_t{32} << 20, kCopiesOfC = 16;

int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/// Bytes of workspace for the library. They depend only on sizes, because memory plans are made without
/// knowing whether there is a library or whether the batch has documents. An evaluation has the plan of the
/// training forward, but no dropout, so the library may compute it.
int64_t library_bytes(const AttentionShape& s, bool backward) {
  AttentionShape some = s;
  static constexpr int32_t kSomeDocuments = 0;
  some.kv_begin = nullptr;
  if (!backward) some.dropout = {};
  SdpaShape shape;
  if (!sdpa_shape(some, backward, &shape)) return 0;
  const int64_t whole = sdpa_workspace(shape).bytes();
  some.kv_begin = &kSomeDocuments;
  some.documents = s.batch * s.seq_q;
  return sdpa_shape(some, backward, &shape) ? larger(whole, sdpa_workspace(shape).bytes()) : whole;
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
  if (args.a_fp8.on()) return fp8_workspace(args).bytes();
  const int64_t product = matmul_workspace(args).bytes();
  if (args.bias_gradient == nullptr) return product;
  const int64_t sums = bias_sums_bytes(args) + column_sum_workspace_bytes(bias_sums(args), workers);
  return product > sums ? product : sums;
}

int64_t norm_backward_workspace_bytes(const NormBackward& args, int32_t) {
  return 2 * shares_of(args).parts * args.d * static_cast<int64_t>(sizeof(float));
}

int64_t column_sum_workspace_bytes(const ColumnSum& args, int32_t) {
  return runs_of(args.rows).parts * args.n * static_cast<int64_t>(sizeof(float));
}

int64_t embedding_backward_workspace_bytes(const EmbeddingBackward& args, int32_t) {
  return args.distinct ? 0 : (args.table_rows + 1 + args.rows) * static_cast<int64_t>(sizeof(int32_t));
}

int64_t grouped_matmul_workspace_bytes(const GroupedMatmul&, int32_t) { return 0; }

int64_t attention_forward_workspace_bytes(const AttentionForward& args, int32_t) {
  return is_plain(args) ? library_bytes(args.s, false) : 0;
}

int64_t attention_backward_workspace_bytes(const AttentionBackward& args, int32_t) {
  return larger(is_plain(args) ? library_bytes(args.s, true) : 0, tiled_backward_bytes(args.s));
}

int64_t tiled_backward_bytes(const AttentionShape& s) {
  return s.batch * s.heads * s.seq_q * static_cast<int64_t>(sizeof(float));
}

}  // namespace hawser::kernels::cuda
