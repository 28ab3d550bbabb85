// The emulated GPU has no cuBLASLt: our own kernel multiplies.
#include "engine/device/cuda/products.h"

namespace hawser::device {
bool start_products(kernels::cuda::CudaStream*, bool, kernels::cuda::StickyError*) { return true; }
void end_products(kernels::cuda::CudaStream*) {}
}  // namespace hawser::device
