// The CUDA entries of the kernel table, one .cu or .cc file per operation. Every Stream is a CudaStream;
// pointers are to device memory, except OrderedSum::in, which is in host memory. A call queues its work and
// returns.
#pragma once

#include "kernels/cuda/sizes/workspace_bytes.h"

namespace hawser::kernels::cuda {

#define HWS_DECLARE(name, Args) void name(const Args& args, Stream& stream);
HWS_EACH_SHARED_KERNEL(HWS_DECLARE)
#undef HWS_DECLARE

void prepare_matmul(const Matmul& args, Stream& stream);
void prepare_attention_forward(const AttentionForward& args, Stream& stream);
void prepare_attention_backward(const AttentionBackward& args, Stream& stream);

/// The table of all kernels above.
const KernelTable& cuda_kernels();

}  // namespace hawser::kernels::cuda
