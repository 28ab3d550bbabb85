// The two ways to multiply matrices on a GPU, behind the table's `matmul` (matmul.cc).
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/include/matmul.h"

namespace hawser::kernels::cuda {

/// Any product of the contract, by our own kernel. Takes no workspace.
void matmul_tiled(const Matmul& args, CudaStream& stream);

}  // namespace hawser::kernels::cuda
