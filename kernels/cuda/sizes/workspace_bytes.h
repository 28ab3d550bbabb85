// The sizes of the CUDA kernels' workspaces. They are compiled into both the plugin and the core, so that a
// plan can be made for a GPU that the machine does not have. They hold for workspaces that start at a
// multiple of 256 bytes; Workspace adds the padding.
#pragma once

#include "kernels/cuda/sizes/aligned.h"
#include "kernels/include/table.h"

namespace hawser::kernels::cuda {

int64_t matmul_workspace_bytes(const Matmul& args, int32_t num_workers);
int64_t norm_backward_workspace_bytes(const NormBackward& args, int32_t num_workers);
int64_t attention_forward_workspace_bytes(const AttentionForward& args, int32_t num_workers);
int64_t attention_backward_workspace_bytes(const AttentionBackward& args, int32_t num_workers);
int64_t column_sum_workspace_bytes(const ColumnSum& args, int32_t num_workers);
int64_t embedding_backward_workspace_bytes(const EmbeddingBackward& args, int32_t num_workers);
int64_t grouped_matmul_workspace_bytes(const GroupedMatmul& args, int32_t num_workers);
/// Part of attention_backward_workspace_bytes: what our own kernel needs.
int64_t tiled_backward_bytes(const AttentionShape& shape);

/// The alignment that callers guarantee.
constexpr uintptr_t kGivenAlignment = 64;

/// Returns the bytes of a kernel's workspace, including the padding for its alignment.
template <auto kBytes>
struct Workspace;
template <class Args, int64_t (*kBytes)(const Args&, int32_t)>
struct Workspace<kBytes> {
  static int64_t bytes(const Args& args, int32_t num_workers) {
    const int64_t own = kBytes(args, num_workers);
    return own > 0 ? own + static_cast<int64_t>(kWorkspaceAlignment - kGivenAlignment) : 0;
  }
};

inline constexpr Suited kSuited = {.narrow_logits = true,
                                   .epilogues = true,
                                   .fp8_products = true,
                                   .narrow_branches = true,
                                   .rounded_gradients = true,
                                   .defers_sums = true,
                                   .logit_bytes = int64_t{1} << 30,
                                   .logit_rows = 8192};

/// Returns the table with its workspaces and preferences.
constexpr KernelTable with_sizes(KernelTable table) {
  table.matmul_workspace_bytes = Workspace<matmul_workspace_bytes>::bytes;
  table.norm_backward_workspace_bytes = Workspace<norm_backward_workspace_bytes>::bytes;
  table.attention_forward_workspace_bytes = Workspace<attention_forward_workspace_bytes>::bytes;
  table.attention_backward_workspace_bytes = Workspace<attention_backward_workspace_bytes>::bytes;
  table.column_sum_workspace_bytes = Workspace<column_sum_workspace_bytes>::bytes;
  table.embedding_backward_workspace_bytes = Workspace<embedding_backward_workspace_bytes>::bytes;
  table.grouped_matmul_workspace_bytes = Workspace<grouped_matmul_workspace_bytes>::bytes;
  table.suited = &kSuited;
  return table;
}

}  // namespace hawser::kernels::cuda
