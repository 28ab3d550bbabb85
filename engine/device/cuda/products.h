// Who multiplies matrices on a GPU: cuBLASLt, which must be there (products_cublaslt.cc), or our own kernel
// where no library can be (the emulator's build has a file of its own).
#pragma once

#include "kernels/cuda/cuda_stream.h"

namespace hawser::device {

/// Makes what the stream's products need, the device's context being current; stream->cublaslt is then the
/// caller's to end. False, with the reason in `failure`, where that cannot be had.
bool start_products(kernels::cuda::CudaStream* stream, bool deterministic,
                    kernels::cuda::StickyError* failure);
void end_products(kernels::cuda::CudaStream* stream);

}  // namespace hawser::device
