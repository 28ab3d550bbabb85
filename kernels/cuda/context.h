// The context of a GPU, which every CUDA library in the process shares (the primary context). The runtime
// works on the one that is current on the calling thread, and cudaSetDevice would leave ours there, on a
// thread that is the host's: so a call makes it current for as long as it runs. By driver calls, because the
// runtime's own have no way back to "no context" without making one on GPU 0.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

namespace hawser::kernels::cuda {

/// Driver calls, found by the runtime in the driver that is there; libcuda is never linked. Contexts are
/// opaque here.
struct ContextCalls {
  int (*get_current)(void** context);
  int (*push_current)(void* context);
  int (*pop_current)(void** context);
};

struct Context {
  void* handle = nullptr;
  ContextCalls calls = {};
};

/// Makes or joins the primary context of a GPU. On failure names the call in `operation`. Every retain is met
/// by one release.
cudaError_t retain_context(int32_t index, Context* out, const char** operation);
void release_context(int32_t index);

/// The context is current on this thread until the scope ends. Null: whatever is current stays so.
class ContextScope {
 public:
  explicit ContextScope(const Context* context) : context_(context) {
    void* current = nullptr;
    if (context_ == nullptr || (context_->calls.get_current(&current) == 0 && current == context_->handle))
      return;
    pushed_ = context_->calls.push_current(context_->handle) == 0;
  }
  ~ContextScope() {
    void* popped = nullptr;
    if (pushed_) context_->calls.pop_current(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Context* context_;
  bool pushed_ = false;
};

}  // namespace hawser::kernels::cuda
