// The context of a GPU, which all CUDA libraries in the process share (the primary context). The runtime uses
// the context that is current on the calling thread. cudaSetDevice would leave ours current on a thread of
// the host program, so each call makes it current only for its duration. This file uses driver calls, because
// the runtime cannot return to "no context" without creating one on GPU 0.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

namespace hawser::kernels::cuda {

/// Driver calls, which the runtime looks up in the installed driver; libcuda is never linked. Contexts are
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

/// Creates or joins the primary context of a GPU. On failure stores the name of the call in `operation`. Each
/// retain needs one release.
cudaError_t retain_context(int32_t index, Context* out, const char** operation);
void release_context(int32_t index);

/// Makes the context current on this thread until the end of the scope. Null changes nothing.
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
