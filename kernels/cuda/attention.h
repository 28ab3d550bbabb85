// The implementations of attention on a GPU that the table's attention_forward and _backward choose from
// (attention.cc): a library's fused kernels (sdpa.h), and our own, which handle every case of the contract:
// on tensor cores if products use bf16 values, otherwise in f32 by plain tiles.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/include/attention.h"

namespace hawser::kernels::cuda {

void attention_forward_tensor(const AttentionForward& args, CudaStream& stream);
void attention_forward_tiled(const AttentionForward& args, CudaStream& stream);

/// Writes dout · o of every query to the workspace, tiled_backward_bytes (sizes/workspace_bytes.h).
void attention_deltas(const AttentionBackward& args, CudaStream& stream);
/// Both need the deltas.
void attention_backward_tensor(const AttentionBackward& args, CudaStream& stream);
void attention_backward_tiled(const AttentionBackward& args, CudaStream& stream);

}  // namespace hawser::kernels::cuda
