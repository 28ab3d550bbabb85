// The CUDA entries of the kernel table, one .cu or .cc file per operation. Every Stream is a CudaStream;
// pointers are to device memory, but for OrderedSum::in, which is the host's. A call queues its work and
// returns.
#pragma once

#include "kernels/include/table.h"

namespace hawser::kernels::cuda {

void matmul(const Matmul& args, Stream& stream);
void embedding_forward(const EmbeddingForward& args, Stream& stream);
void embedding_backward(const EmbeddingBackward& args, Stream& stream);
void norm_forward(const NormForward& args, Stream& stream);
void norm_backward(const NormBackward& args, Stream& stream);
void activation_forward(const ActivationForward& args, Stream& stream);
void activation_backward(const ActivationBackward& args, Stream& stream);
void rope(const Rope& args, Stream& stream);
void residual_forward(const ResidualForward& args, Stream& stream);
void residual_backward(const ResidualBackward& args, Stream& stream);
void attention_forward(const AttentionForward& args, Stream& stream);
void attention_backward(const AttentionBackward& args, Stream& stream);
void cross_entropy(const CrossEntropy& args, Stream& stream);
void soft_cap(const SoftCap& args, Stream& stream);
void column_sum(const ColumnSum& args, Stream& stream);
void sum_of_squares(const SumOfSquares& args, Stream& stream);
void add(const Add& args, Stream& stream);
void convert(const Convert& args, Stream& stream);
void ordered_sum(const OrderedSum& args, Stream& stream);
void adamw(const AdamW& args, Stream& stream);
void sgd(const Sgd& args, Stream& stream);
void adamw_bf16(const AdamWBf16& args, Stream& stream);
void sgd_bf16(const SgdBf16& args, Stream& stream);

void prepare_matmul(const Matmul& args, Stream& stream);
void prepare_attention_forward(const AttentionForward& args, Stream& stream);
void prepare_attention_backward(const AttentionBackward& args, Stream& stream);

/// From a multiple of 256 on; the table adds what it takes to get there.
int64_t matmul_workspace_bytes(const Matmul& args, int32_t num_workers);
int64_t norm_backward_workspace_bytes(const NormBackward& args, int32_t num_workers);
int64_t attention_forward_workspace_bytes(const AttentionForward& args, int32_t num_workers);
int64_t attention_backward_workspace_bytes(const AttentionBackward& args, int32_t num_workers);
int64_t column_sum_workspace_bytes(const ColumnSum& args, int32_t num_workers);

/// All of the above.
const KernelTable& cuda_kernels();

}  // namespace hawser::kernels::cuda
