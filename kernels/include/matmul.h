// The matrix product, which does most of the arithmetic.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// An operation fused into a product, applied to its fp32 result before it is stored: the activation of an
/// MLP, or its gradient (GELU in its tanh form, Hendrycks and Gimpel, arXiv:1606.08415). This saves a pass
/// over memory.
enum class Epilogue : uint8_t { kNone, kGeluTanh, kGeluTanhGradient };

/// How a product rounds an operand to fp8 before it multiplies it (fp8_round.h, Fp8Tile::kTensor): each part
/// of the operand has a power of two of its own. Parts divide the stored columns of a, or the stored rows of
/// b.
struct Fp8Factor {
  static constexpr int32_t kMost = 4;
  struct Part {
    int64_t size = 0;
    const float* maximum = nullptr;  ///< as Fp8Round::maximum; read when the kernel runs
  };
  DType type = DType::kE4m3Block;  ///< or kE5m2Block
  int32_t parts = 0;               ///< 0: the operand is not rounded
  Part part[kMost];

  bool on() const { return parts > 0; }
  /// Returns the first column or row of a part.
  constexpr int64_t begin(int32_t i) const {
    int64_t sum = 0;
    for (int32_t p = 0; p < i; ++p) sum += part[p].size;
    return sum;
  }
};

/// c[m,n] = op(a)[m,k] · op(b)[k,n] (+ bias[n]) (+ c), accumulated in fp32 over k in ascending blocks; a long
/// k is divided into sums of several blocks. The bounds of blocks depend only on k, so results depend neither
/// on the thread count nor on m. Row-major; ld* are elements between stored rows. Types: a, b
/// and c are f32, bf16 or f16; a call has one narrow type. If a or b is narrow, the product is formed from
/// values of that type (an f32 operand is rounded to nearest even when packed); otherwise from f32.
///   a: stored [m,k], or [k,m] when a_transposed.   b: stored [k,n], or [n,k] when b_transposed.
///   bias: [n] of bias_type, or null; added once in fp32 before rounding to c_type. If c is narrow, a
///         backend may round it to c_type first.
///   accumulate: c += instead of c =; needs c_type f32.
/// c must not overlap other arrays. m, n, k >= 0 (k == 0 gives bias or zero). No alignment is required.
///
/// Only for backends with Suited::epilogues, whose rounding may differ from that of separate kernels:
///   epilogue: with h = op(a) op(b) (+ bias). c is dense (ldc = n) and is not added to.
///     kGeluTanh: aux = h and c = GELU(h), each rounded once to c_type; GELU is of the fp32 h or of aux.
///     kGeluTanhGradient: c = h * GELU'(aux), rounded to c_type; h may be rounded before. No bias.
///   aux: [m,n] of c_type, dense, overlaps nothing: the input of GELU. The forward writes it, the backward
///         reads it.
///   bias_gradient: [m] of c_type, or null; (+)= the sums over k of op(a), like c; it may sum rounded values
///         of a. Sums are f32, and rounded once if c_type is narrower. It is the gradient of a layer's bias,
///         from the product dy^T x of its weight's gradient. Requires a_transposed, and no bias or epilogue.
///
/// Only for backends with Suited::fp8_products:
///   a_fp8, b_fp8: both operands are rounded, with the types E4M3 or E5M2, not both E5M2. If both have
///         several parts, these divide k in the same way. a and b are f32 or bf16, c is f32 or bf16, and
///         there is no bias_gradient.
struct Matmul {
  void* c = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  DType c_type = DType::kF32, a_type = DType::kF32, b_type = DType::kF32, bias_type = DType::kF32;
  int64_t ldc = 0, lda = 0, ldb = 0;
  int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false, accumulate = false;
  DType round_to = DType::kF32;  ///< use values of this type in the product even if both operands are f32
  int64_t k_block = 0;           ///< values of k per block (SumBlocks); 0: the block of this k
  Epilogue epilogue = Epilogue::kNone;
  void* aux = nullptr;
  void* bias_gradient = nullptr;
  Fp8Factor a_fp8, b_fp8;
  int32_t fp8_margin = 0;     ///< as Fp8Round::margin
  void* workspace = nullptr;  ///< matmul_workspace_bytes(args), 64-byte aligned
};

/// How a product sums its k values: in blocks of `block` values, which are added in ascending order, and a
/// long k in segments of `segment` values (whole blocks), each of which is summed by itself and then added. A
/// caller that has k in parts can thus get the bits of one product, if each part ends where a block ends: it
/// passes `block` as Matmul::k_block, accumulates the parts of a segment, and adds the segments.
struct SumBlocks {
  int64_t block = 1, segment = 0;  ///< segment: at least k if there is only one
  int64_t most = 1;                ///< the largest block of any k
};

/// Returns the type of the values that a Matmul or a GroupedMatmul multiplies.
template <class Product>
static constexpr inline DType product_type(const Product& m) {
  return m.a_type != DType::kF32 ? m.a_type : m.b_type != DType::kF32 ? m.b_type : m.round_to;
}

}  // namespace hawser::kernels
