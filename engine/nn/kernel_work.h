// KernelWork: what one call of a kernel amounts to, by its arguments alone: floating-point operations, and
// bytes of its operands, each read or written once. Costs of modules (dry_run.cc) and profiles of real steps
// (train/kernel_profile.h) count by the same rules.
#pragma once

#include <cstdint>

#include "kernels/include/table.h"

namespace hawser::nn {

/// Matrix products by what they take along, and the kernels of the table: kMatmul to kSgdBf16.
enum class Kernel : uint8_t {
  kMatmulGelu,
  kMatmulGeluBackward,
  kMatmulBiasGradient,
#define HWS_ENUMERATOR(name, Args) k##Args,
  HWS_EACH_KERNEL(HWS_ENUMERATOR)
#undef HWS_ENUMERATOR
};

/// "matmul", "matmul_gelu" (products with what they take along), "attention_forward", ... Static storage.
const char* kernel_name(Kernel kernel);

/// A matrix product, whatever it takes along.
inline bool is_matmul(Kernel kernel) { return kernel <= Kernel::kMatmul; }

struct KernelWork {
  Kernel kernel = Kernel::kMatmul;
  DType type =
      DType::kF32;  ///< matmul: of the factors; elsewhere of the operand that there are most bytes of
  int64_t m = 0, n = 0, k = 0;  ///< matmul only
  bool a_transposed = false, b_transposed = false;
  double flops = 0;  ///< matmul and attention: 2 per multiply-add, masked pairs not counted; else 0
  double bytes = 0;

  /// Calls that a profile adds up: of one kernel, and of one shape where that decides the speed.
  bool same_class(const KernelWork& o) const {
    return kernel == o.kernel && type == o.type && m == o.m && n == o.n && k == o.k &&
           a_transposed == o.a_transposed && b_transposed == o.b_transposed;
  }
};

#define HWS_WORK(name, Args) KernelWork work_of(const kernels::Args& args);
HWS_EACH_KERNEL(HWS_WORK)
#undef HWS_WORK

}  // namespace hawser::nn
