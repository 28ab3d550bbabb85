// The libraries that are used in addition to our own kernels: cuBLASLt, which is required, and cuDNN, which
// is optional; without it, our own attention runs (libraries_nvidia.cc). The emulator's build has its own
// file.
#pragma once

#include "engine/device/plugin.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/optional_library.h"

namespace hawser::device {

/// Creates the handles that the stream's products and attention need; the device's context must be current.
/// The caller must destroy stream->cublaslt and ->sdpa by end_libraries. `gpu` names the device and must
/// outlive them. Returns false, with the reason in `failure`, if a required library is missing; a missing
/// optional library is named in `without`.
bool start_libraries(kernels::cuda::CudaStream* stream, const DeviceRequest& request, const char* gpu,
                     kernels::cuda::ErrorText without, kernels::cuda::StickyError* failure);
void end_libraries(kernels::cuda::CudaStream* stream);

}  // namespace hawser::device
