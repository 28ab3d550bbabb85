// Attention by cuDNN (its graph API, through NVIDIA's header-only frontend), behind sdpa.h. It is built if
// the headers of both exist (sdpa_cudnn.cc); otherwise sdpa_without_cudnn.cc reports that this build has
// none.
#pragma once

#include "kernels/cuda/optional_library.h"
#include "kernels/cuda/sdpa.h"

namespace hawser::kernels::cuda {

namespace cudnn {
struct Api;
}

/// Opens cuDNN for one stream, whose device is current. If cuDNN is unavailable, returns null and stores the
/// reason in `error`. The caller deletes the object.
Sdpa* open_cudnn_sdpa(bool deterministic, ErrorText error);
/// Like open_cudnn_sdpa, with a table of functions (cudnn/functions.h) that must outlive the object.
Sdpa* make_cudnn_sdpa(const cudnn::Api& api, bool deterministic, ErrorText error);

}  // namespace hawser::kernels::cuda
