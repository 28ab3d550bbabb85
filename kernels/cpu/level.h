// Declares the functions with which every CPU level fills its kernel table (kernels/include/table.h). Each
// .cc of this folder except the dispatcher is compiled once per level with HWS_LEVEL = generic, v2, v3, v4,
// v4bf16, neon or neonbf16 and HWS_SIMD = the header of that level. Everything except these functions is in
// an anonymous namespace, and no C++ library header is used: one inline function shared by two levels could
// make the linker run AVX-512 code on a machine without it.
#pragma once

#include "kernels/include/table.h"

namespace hawser::kernels {

// The kernels that all levels share (cpu/baseline/*.cc).
namespace baseline {
#define HWS_DECLARE(name, Args) void name(const Args& args, Stream& stream);
HWS_EACH_BASELINE_KERNEL(HWS_DECLARE)
void rope_neighbours(const Rope& args, Stream& stream);  // `rope` calls it for interleaved rotations
}  // namespace baseline

namespace HWS_LEVEL {

extern const KernelTable kTable;

HWS_EACH_LEVEL_KERNEL(HWS_DECLARE)
#undef HWS_DECLARE

int64_t matmul_workspace_bytes(const Matmul& args, int32_t num_workers);
SumBlocks matmul_sum_blocks(DType type, int64_t k);
int64_t norm_backward_workspace_bytes(const NormBackward& args, int32_t num_workers);
int64_t attention_forward_workspace_bytes(const AttentionForward& args, int32_t num_workers);
int64_t attention_backward_workspace_bytes(const AttentionBackward& args, int32_t num_workers);
int64_t column_sum_workspace_bytes(const ColumnSum& args, int32_t num_workers);
int64_t embedding_backward_workspace_bytes(const EmbeddingBackward& args, int32_t num_workers);
int64_t grouped_matmul_workspace_bytes(const GroupedMatmul& args, int32_t num_workers);

}  // namespace HWS_LEVEL
}  // namespace hawser::kernels
