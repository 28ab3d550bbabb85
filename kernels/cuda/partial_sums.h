// The second pass of sums over rows: adds the partial sums that blocks left in a workspace.
#pragma once

#include "kernels/cuda/launch.h"

namespace hawser::kernels::cuda {

/// out[j] (+)= sum over p < parts of partial[p * n + j]. `parts` alone determines the order: ascending inside
/// each of up to 32 equal slices, then the slices ascending.
void add_partial_sums(CudaStream& stream, const char* operation, float* out, const float* partial,
                      int64_t parts, int64_t n, bool accumulate);

}  // namespace hawser::kernels::cuda
