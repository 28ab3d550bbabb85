// KernelWork: what one call of a kernel amounts to, by its arguments alone: floating-point operations, and
// bytes of its operands, each read or written once. Costs of modules (dry_run.cc) and profiles of real steps
// (train/kernel_profile.h) count by the same rules.
#pragma once

#include <cstdint>

#include "kernels/include/table.h"

namespace hawser::nn {

enum class Kernel : uint8_t {
  kMatmul,
  kMatmulGelu,
  kMatmulGeluBackward,
  kMatmulBiasGradient,
  kAttentionForward,
  kAttentionBackward,
  kNormForward,
  kNormBackward,
  kResidualForward,
  kResidualBackward,
  kActivationForward,
  kActivationBackward,
  kRope,
  kEmbeddingForward,
  kEmbeddingBackward,
  kCrossEntropy,
  kSoftCap,
  kColumnSum,
  kSumOfSquares,
  kAdd,
  kConvert,
  kOrderedSum,
  kAdamW,
  kSgd,
  kAdamWBf16,
  kSgdBf16
};

/// "matmul", "matmul_gelu" (products with what they take along), "attention_forward", ... Static storage.
const char* kernel_name(Kernel kernel);

/// A matrix product, whatever it takes along.
inline bool is_matmul(Kernel kernel) { return kernel <= Kernel::kMatmulBiasGradient; }

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

KernelWork work_of(const kernels::Matmul& m);
KernelWork work_of(const kernels::EmbeddingForward& e);
KernelWork work_of(const kernels::EmbeddingBackward& e);
KernelWork work_of(const kernels::NormForward& n);
KernelWork work_of(const kernels::NormBackward& n);
KernelWork work_of(const kernels::ActivationForward& a);
KernelWork work_of(const kernels::ActivationBackward& a);
KernelWork work_of(const kernels::Rope& r);
KernelWork work_of(const kernels::ResidualForward& r);
KernelWork work_of(const kernels::ResidualBackward& r);
KernelWork work_of(const kernels::AttentionForward& a);
KernelWork work_of(const kernels::AttentionBackward& a);
KernelWork work_of(const kernels::CrossEntropy& c);
KernelWork work_of(const kernels::SoftCap& s);
KernelWork work_of(const kernels::ColumnSum& s);
KernelWork work_of(const kernels::SumOfSquares& s);
KernelWork work_of(const kernels::Add& a);
KernelWork work_of(const kernels::Convert& c);
KernelWork work_of(const kernels::OrderedSum& s);
KernelWork work_of(const kernels::AdamW& a);
KernelWork work_of(const kernels::Sgd& s);
KernelWork work_of(const kernels::AdamWBf16& a);
KernelWork work_of(const kernels::SgdBf16& s);

}  // namespace hawser::nn
