// KernelWork: the work of one kernel call, computed from its arguments: floating-point operations, and bytes
// of its operands, each read or written once. Costs of modules (dry_run.cc) and profiles of real steps
// (train/step/kernel_profile.h) use the same rules.
#pragma once

#include <cstdint>

#include "kernels/include/table.h"

namespace hawser::nn {

/// Matrix products by the operation fused into them, and the kernels of the table: kMatmul to kSgdBf16.
enum class Kernel : uint8_t {
  kMatmulGelu,
  kMatmulGeluBackward,
  kMatmulBiasGradient,
#define HWS_ENUMERATOR(name, Args) k##Args,
  HWS_EACH_KERNEL(HWS_ENUMERATOR)
#undef HWS_ENUMERATOR
};

/// For example "matmul", "matmul_gelu" (a product with a fused operation), "attention_forward". Static
/// storage.
const char* kernel_name(Kernel kernel);

/// Whether it is a matrix product, with or without a fused operation.
inline bool is_matmul(Kernel kernel) { return kernel <= Kernel::kMatmul; }

struct KernelWork {
  Kernel kernel = Kernel::kMatmul;
  DType type = DType::kF32;  ///< matmul: type of the factors; others: type of the operand with the most bytes
  int64_t m = 0, n = 0, k = 0;  ///< matmul only
  bool a_transposed = false, b_transposed = false;
  double flops = 0;  ///< matmul and attention: 2 per multiply-add, without masked pairs; else 0
  double bytes = 0;

  /// Whether a profile sums the two calls: same kernel, and same shape if that determines the speed.
  bool same_class(const KernelWork& o) const {
    return kernel == o.kernel && type == o.type && m == o.m && n == o.n && k == o.k &&
           a_transposed == o.a_transposed && b_transposed == o.b_transposed;
  }
};

#define HWS_WORK(name, Args) KernelWork work_of(const kernels::Args& args);
HWS_EACH_KERNEL(HWS_WORK)
#undef HWS_WORK

}  // namespace hawser::nn
