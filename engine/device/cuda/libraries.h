// The libraries that compute beside our kernels on a stream: cuBLASLt, which is required, and cuDNN, without
// which our own attention runs (libraries_nvidia.cc). The emulator's build has its own file.
#pragma once

#include "engine/device/plugin.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/optional_library.h"

namespace hawser::device {

/// Makes what the stream's products and attention need, the device's context being current; stream->cublaslt
/// and ->sdpa are then the caller's to end. `gpu` names the device and outlives them. False, with the reason
/// in `failure`, where what must be there is not; what need not be is told in `without`.
bool start_libraries(kernels::cuda::CudaStream* stream, const DeviceRequest& request, const char* gpu,
                     kernels::cuda::ErrorText without, kernels::cuda::StickyError* failure);
void end_libraries(kernels::cuda::CudaStream* stream);

}  // namespace hawser::device
