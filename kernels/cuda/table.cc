// The CUDA kernel table, as constant data.
#include "kernels/cuda/table.h"

#include "kernels/cuda/cuda_stream.h"

namespace hawser::kernels::cuda {

namespace {

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

}  // namespace

const KernelTable& cuda_kernels() {
  static constexpr KernelTable kTable = with_sizes({
      .name = "cuda",
#define HWS_ENTRY(name, Args) .name = InContext<name>::run,
      HWS_EACH_SHARED_LEVEL_KERNEL(HWS_ENTRY)
#undef HWS_ENTRY
#define HWS_ENTRY(name, Args) .name = nullptr,
          HWS_EACH_CPU_KERNEL(HWS_ENTRY)
#undef HWS_ENTRY
#define HWS_ENTRY(name, Args) .name = InContext<name>::run,
              HWS_EACH_BASELINE_KERNEL(HWS_ENTRY)
#undef HWS_ENTRY
                  .prepare_matmul = InContext<prepare_matmul>::run,
      .prepare_attention_forward = InContext<prepare_attention_forward>::run,
      .prepare_attention_backward = InContext<prepare_attention_backward>::run,
      .matmul_workspace_bytes = nullptr,
      .norm_backward_workspace_bytes = nullptr,
      .attention_forward_workspace_bytes = nullptr,
      .attention_backward_workspace_bytes = nullptr,
      .column_sum_workspace_bytes = nullptr,
      .embedding_backward_workspace_bytes = nullptr,
      .grouped_matmul_workspace_bytes = nullptr,
      .suited = nullptr,
  });
  return kTable;
}

}  // namespace hawser::kernels::cuda
