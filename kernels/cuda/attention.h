// The two implementations of attention on a GPU that the table's attention_forward and _backward choose from
// (attention.cc): a library's fused kernels (sdpa.h), and our own tiled kernels, which handle every case of
// the contract.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/include/attention.h"

namespace hawser::kernels::cuda {

void attention_forward_tiled(const AttentionForward& args, CudaStream& stream);
/// Needs tiled_backward_bytes of workspace (sizes/workspace_bytes.h).
void attention_backward_tiled(const AttentionBackward& args, CudaStream& stream);

}  // namespace hawser::kernels::cuda
