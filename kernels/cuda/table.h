// The CUDA entries of the kernel table, one .cu or .cc file per operation. Every Stream is a CudaStream;
// pointers are to device memory, except OrderedSum::in, which is in host memory. A call queues its work and
// returns.
#pragma once

#include "kernels/include/table.h"

namespace hawser::kernels::cuda {

#define HWS_DECLARE(name, Args) void name(const Args& args, Stream& stream);
HWS_EACH_KERNEL(HWS_DECLARE)
#undef HWS_DECLARE

void prepare_matmul(const Matmul& args, Stream& stream);
void prepare_attention_forward(const AttentionForward& args, Stream& stream);
void prepare_attention_backward(const AttentionBackward& args, Stream& stream);

/// These sizes are counted from a multiple of 256; the table adds the padding.
int64_t matmul_workspace_bytes(const Matmul& args, int32_t num_workers);
int64_t norm_backward_workspace_bytes(const NormBackward& args, int32_t num_workers);
int64_t attention_forward_workspace_bytes(const AttentionForward& args, int32_t num_workers);
int64_t attention_backward_workspace_bytes(const AttentionBackward& args, int32_t num_workers);
int64_t column_sum_workspace_bytes(const ColumnSum& args, int32_t num_workers);
int64_t embedding_backward_workspace_bytes(const EmbeddingBackward& args, int32_t num_workers);
int64_t grouped_matmul_workspace_bytes(const GroupedMatmul& args, int32_t num_workers);

/// The table of all kernels above.
const KernelTable& cuda_kernels();

}  // namespace hawser::kernels::cuda
