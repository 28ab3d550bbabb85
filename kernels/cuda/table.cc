// The CUDA kernel table, as constant data.
#include "kernels/cuda/table.h"

#include "kernels/cuda/cuda_stream.h"

namespace hawser::kernels::cuda {

namespace {

/// Alignment of workspaces: cublasLtMatmul needs a multiple of 256 bytes, and the caller guarantees a
/// multiple of 64.
constexpr uintptr_t kWorkspaceAlignment = 256, kGivenAlignment = 64;

template <class Args>
void align_workspace(Args& args) {
  if constexpr (requires { args.workspace = static_cast<void*>(nullptr); }) {
    const uintptr_t past = reinterpret_cast<uintptr_t>(args.workspace) % kWorkspaceAlignment;
    if (past != 0) args.workspace = static_cast<char*>(args.workspace) + (kWorkspaceAlignment - past);
  }
}

/// Calls a kernel while the stream's GPU is current on the calling thread.
template <auto kKernel>
struct InContext;
template <class Args, void (*kKernel)(const Args&, Stream&)>
struct InContext<kKernel> {
  static void run(const Args& args, Stream& stream) {
    const ContextScope scope(cuda_stream(stream).context);
    Args aligned = args;
    align_workspace(aligned);
    kKernel(aligned, stream);
  }
};

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

}  // namespace

const KernelTable& cuda_kernels() {
  static constexpr Suited kSuited = {
      .narrow_logits = true, .epilogues = true, .logit_bytes = int64_t{1} << 30, .logit_rows = 8192};
  static constexpr KernelTable kTable = {
      .name = "cuda",
#define HWS_ENTRY(name, Args) .name = InContext<name>::run,
      HWS_EACH_KERNEL(HWS_ENTRY)
#undef HWS_ENTRY
          .prepare_matmul = InContext<prepare_matmul>::run,
      .prepare_attention_forward = InContext<prepare_attention_forward>::run,
      .prepare_attention_backward = InContext<prepare_attention_backward>::run,
      .matmul_workspace_bytes = Workspace<matmul_workspace_bytes>::bytes,
      .norm_backward_workspace_bytes = Workspace<norm_backward_workspace_bytes>::bytes,
      .attention_forward_workspace_bytes = Workspace<attention_forward_workspace_bytes>::bytes,
      .attention_backward_workspace_bytes = Workspace<attention_backward_workspace_bytes>::bytes,
      .column_sum_workspace_bytes = Workspace<column_sum_workspace_bytes>::bytes,
      .embedding_backward_workspace_bytes = Workspace<embedding_backward_workspace_bytes>::bytes,
      .grouped_matmul_workspace_bytes = Workspace<grouped_matmul_workspace_bytes>::bytes,
      .suited = &kSuited,
  };
  return kTable;
}

}  // namespace hawser::kernels::cuda
