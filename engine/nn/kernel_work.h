// KernelWork: the floating-point operations of one kernel call and the bytes of its operands, each read or
// written once, computed from its arguments. Costs of modules (dry_run.cc) and profiles of real steps
// (execute/kernel_profile.h) use the same rules.
#pragma once

#include <cstdint>

#include "engine/base/kernel_calls.h"
#include "kernels/include/table.h"

namespace hawser::nn {

/// Matrix products by the operation fused into them, then the other kernels of the table.
enum class Kernel : uint8_t {
  kMatmulGelu,
  kMatmulGeluBackward,
  kMatmulBiasGradient,
#define HWS_ENUMERATOR(name, Args) k##Args,
  HWS_EACH_KERNEL(HWS_ENUMERATOR)
#undef HWS_ENUMERATOR
      kCount
};

/// Returns a name such as "matmul", "matmul_gelu" (a product with a fused operation) or "attention_forward",
/// in static storage.
const char* kernel_name(Kernel kernel);

struct KernelWork {
  Kernel kernel = Kernel::kMatmul;
  DType type = DType::kF32;  ///< matmul: type of the factors; others: type of the operand with the most bytes
  int64_t m = 0, n = 0, k = 0;  ///< matmul only
  bool a_transposed = false, b_transposed = false;
  int64_t length = 0, head_dim = 0;  ///< attention only: keys, and elements of a head
  double flops = 0;  ///< matmul and attention: 2 per multiply-add, without masked pairs; otherwise 0
  double bytes = 0;
};

/// One call, in its class.
KernelCalls calls_of(const KernelWork& work);

#define HWS_WORK(name, Args) KernelWork work_of(const kernels::Args& args);
HWS_EACH_KERNEL(HWS_WORK)
#undef HWS_WORK

}  // namespace hawser::nn
