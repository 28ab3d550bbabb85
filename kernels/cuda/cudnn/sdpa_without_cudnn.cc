// Used in a build without cuDNN's headers: attention runs on our own kernels.
#include <stdio.h>

#include "kernels/cuda/cudnn/sdpa_cudnn.h"

namespace hawser::kernels::cuda {

Sdpa* open_cudnn_sdpa(bool, ErrorText error) {
  snprintf(error.text, error.bytes, "this build has no cuDNN: its headers were not there");
  return nullptr;
}

}  // namespace hawser::kernels::cuda
