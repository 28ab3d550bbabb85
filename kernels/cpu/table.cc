// The kernel table of one level. It is constant data, so no initialiser runs. HWS_REST is the level that has
// the kernels other than products: the level itself, or one whose kernels would have the same instructions.
#include "kernels/cpu/level.h"

namespace hawser::kernels {

namespace HWS_REST {
#define HWS_DECLARE(name, Args) void name(const Args& args, Stream& stream);
HWS_EACH_LEVEL_KERNEL(HWS_DECLARE)
#undef HWS_DECLARE
int64_t norm_backward_workspace_bytes(const NormBackward& args, int32_t num_workers);
int64_t column_sum_workspace_bytes(const ColumnSum& args, int32_t num_workers);
int64_t embedding_backward_workspace_bytes(const EmbeddingBackward& args, int32_t num_workers);
}  // namespace HWS_REST

namespace HWS_LEVEL {
namespace {

constexpr Suited kSuited = {.narrow_logits = false,
                            .epilogues = false,
                            .fp8_products = false,
                            .narrow_branches = false,
                            .rounded_gradients = false,
                            .defers_sums = false,
                            .logit_bytes = int64_t{8} << 20,
                            .logit_rows = 4096};

constexpr KernelTable table() {
  KernelTable t = {
      .name = HWS_LEVEL_NAME,
#define HWS_ENTRY(name, Args) .name = HWS_REST::name,
      HWS_EACH_LEVEL_KERNEL(HWS_ENTRY)
#undef HWS_ENTRY
#define HWS_ENTRY(name, Args) .name = baseline::name,
          HWS_EACH_BASELINE_KERNEL(HWS_ENTRY)
#undef HWS_ENTRY
              .matmul_workspace_bytes = matmul_workspace_bytes,
      .norm_backward_workspace_bytes = HWS_REST::norm_backward_workspace_bytes,
      .attention_forward_workspace_bytes = attention_forward_workspace_bytes,
      .attention_backward_workspace_bytes = attention_backward_workspace_bytes,
      .column_sum_workspace_bytes = HWS_REST::column_sum_workspace_bytes,
      .embedding_backward_workspace_bytes = HWS_REST::embedding_backward_workspace_bytes,
      .grouped_matmul_workspace_bytes = grouped_matmul_workspace_bytes,
      .matmul_sum_blocks = matmul_sum_blocks,
      .suited = &kSuited,
  };
  t.matmul = HWS_LEVEL::matmul, t.grouped_matmul = HWS_LEVEL::grouped_matmul;
  t.attention_forward = HWS_LEVEL::attention_forward, t.attention_backward = HWS_LEVEL::attention_backward;
  return t;
}

}  // namespace

constinit const KernelTable kTable = table();

}  // namespace HWS_LEVEL
}  // namespace hawser::kernels
