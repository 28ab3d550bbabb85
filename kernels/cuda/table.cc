// The CUDA kernel table: constant data.
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {

const KernelTable& cuda_kernels() {
  static constexpr KernelTable kTable = {
      .name = "cuda",
      .matmul = matmul,
      .embedding_forward = embedding_forward,
      .embedding_backward = embedding_backward,
      .norm_forward = norm_forward,
      .norm_backward = norm_backward,
      .activation_forward = activation_forward,
      .activation_backward = activation_backward,
      .rope = rope,
      .residual_forward = residual_forward,
      .residual_backward = residual_backward,
      .attention_forward = attention_forward,
      .attention_backward = attention_backward,
      .cross_entropy = cross_entropy,
      .soft_cap = soft_cap,
      .column_sum = column_sum,
      .sum_of_squares = sum_of_squares,
      .add = add,
      .convert = convert,
      .ordered_sum = ordered_sum,
      .adamw = adamw,
      .sgd = sgd,
      .matmul_workspace_bytes = matmul_workspace_bytes,
      .norm_backward_workspace_bytes = norm_backward_workspace_bytes,
      .attention_forward_workspace_bytes = attention_forward_workspace_bytes,
      .attention_backward_workspace_bytes = attention_backward_workspace_bytes,
      .column_sum_workspace_bytes = column_sum_workspace_bytes,
  };
  return kTable;
}

}  // namespace hawser::kernels::cuda
