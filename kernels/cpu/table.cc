// The kernel table of one level: constant data, no initialiser.
#include "kernels/cpu/level.h"

namespace hawser::kernels::HWS_LEVEL {

static constexpr Suited kSuited = {
    .narrow_logits = false, .epilogues = false, .logit_bytes = int64_t{8} << 20, .logit_rows = 4096};

const KernelTable kTable = {
    .name = HWS_LEVEL_NAME,
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
    .adamw_bf16 = adamw_bf16,
    .sgd_bf16 = sgd_bf16,
    .matmul_workspace_bytes = matmul_workspace_bytes,
    .norm_backward_workspace_bytes = norm_backward_workspace_bytes,
    .attention_forward_workspace_bytes = attention_forward_workspace_bytes,
    .attention_backward_workspace_bytes = attention_backward_workspace_bytes,
    .column_sum_workspace_bytes = column_sum_workspace_bytes,
    .suited = &kSuited,
};

}  // namespace hawser::kernels::HWS_LEVEL
