// Attention by cuDNN (its graph API, through NVIDIA's header-only frontend), behind sdpa.h. Built where both
// have headers (sdpa_cudnn.cc); elsewhere sdpa_without_cudnn.cc says that this build has none.
#pragma once

#include "kernels/cuda/optional_library.h"
#include "kernels/cuda/sdpa.h"

namespace hawser::kernels::cuda {

namespace cudnn {
struct Api;
}

/// For one stream, whose device is current. Returns null, with the reason in `error`, if cuDNN is
/// unavailable. The caller deletes it.
Sdpa* open_cudnn_sdpa(bool deterministic, ErrorText error);
/// The same with a table of functions (cudnn/functions.h), which must outlive it.
Sdpa* make_cudnn_sdpa(const cudnn::Api& api, bool deterministic, ErrorText error);

}  // namespace hawser::kernels::cuda
