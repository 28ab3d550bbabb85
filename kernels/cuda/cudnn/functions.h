// cuDNN as a table of functions. NVIDIA's frontend calls cuDNN by name. functions.cc defines these names,
// hidden in our plugin, and forwards each call, so that the library is opened on demand and never linked.
#pragma once

#include <cudnn.h>

#include "kernels/cuda/optional_library.h"

namespace hawser::kernels::cuda::cudnn {

/// Each member is the function of that name with the prefix "cudnn".
struct Api {
  decltype(&cudnnCreate) Create;
  decltype(&cudnnDestroy) Destroy;
  decltype(&cudnnGetVersion) GetVersion;
  decltype(&cudnnGetErrorString) GetErrorString;
  decltype(&cudnnGetLastErrorString) GetLastErrorString;
  decltype(&cudnnSetStream) SetStream;
  decltype(&cudnnGetStream) GetStream;
  decltype(&cudnnBackendCreateDescriptor) BackendCreateDescriptor;
  decltype(&cudnnBackendDestroyDescriptor) BackendDestroyDescriptor;
  decltype(&cudnnBackendSetAttribute) BackendSetAttribute;
  decltype(&cudnnBackendGetAttribute) BackendGetAttribute;
  decltype(&cudnnBackendFinalize) BackendFinalize;
  decltype(&cudnnBackendExecute) BackendExecute;
};

inline constexpr const char* kName = "libcudnn.so.9";

/// Opens cuDNN, once per process; it stays open. On failure returns null and stores the reason in `error`.
const Api* open_cudnn(ErrorText error);

/// Forwards calls to `api` from now on, in the whole process.
void call_through(const Api* api);

}  // namespace hawser::kernels::cuda::cudnn
