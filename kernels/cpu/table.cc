// The kernel table of one level. It is constant data, so no initialiser runs.
#include "kernels/cpu/level.h"

namespace hawser::kernels::HWS_LEVEL {

static constexpr Suited kSuited = {
    .narrow_logits = false, .epilogues = false, .logit_bytes = int64_t{8} << 20, .logit_rows = 4096};

const KernelTable kTable = {
    .name = HWS_LEVEL_NAME,
#define HWS_ENTRY(name, Args) .name = name,
    HWS_EACH_LEVEL_KERNEL(HWS_ENTRY)
#undef HWS_ENTRY
#define HWS_ENTRY(name, Args) .name = baseline::name,
        HWS_EACH_BASELINE_KERNEL(HWS_ENTRY)
#undef HWS_ENTRY
            .matmul_workspace_bytes = matmul_workspace_bytes,
    .norm_backward_workspace_bytes = norm_backward_workspace_bytes,
    .attention_forward_workspace_bytes = attention_forward_workspace_bytes,
    .attention_backward_workspace_bytes = attention_backward_workspace_bytes,
    .column_sum_workspace_bytes = column_sum_workspace_bytes,
    .embedding_backward_workspace_bytes = embedding_backward_workspace_bytes,
    .grouped_matmul_workspace_bytes = grouped_matmul_workspace_bytes,
    .matmul_sum_blocks = matmul_sum_blocks,
    .suited = &kSuited,
};

}  // namespace hawser::kernels::HWS_LEVEL
