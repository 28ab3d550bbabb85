// LayerNorm (Ba et al., arXiv 1607.06450) and RMSNorm (Zhang and Sennrich, arXiv 1910.07467), forward and
// backward.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"
#include "kernels/include/residual.h"

namespace hawser::kernels {

/// y = (x - mean) * rstd * (weight_offset + weight) + bias, over the last d elements; RMSNorm has no mean and
/// no bias (`mean` null). Vectors are addressed as base + row * stride + group * d, so that one call
/// normalises each head of a fused buffer (groups = heads). Statistics are fp32 (two passes), rstd =
/// 1/sqrt(var + eps), var = mean square deviation over d. Types: x, y in {f32, bf16}; weight, bias in {f32,
/// bf16}, [d] shared by the groups. mean, rstd: f32 [rows*groups], written. y may alias x only exactly (same
/// address, stride, type).
struct NormForward {
  void* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  DType y_type = DType::kF32, x_type = DType::kF32, weight_type = DType::kF32;
  int64_t rows = 0, groups = 1, d = 0, y_stride = 0, x_stride = 0;
  float eps = 1e-5f, weight_offset = 0.0f;
  /// If residual.y is not null, x is that sum, and this call computes it in the same pass: x == residual.y,
  /// types, rows and d are equal, x_stride = d, groups = 1, and there is a branch. The norm is that of the
  /// stored sum: of bf16, it reads the rounded values.
  ResidualForward residual;
};

/// dx (+)= gradient of the input; dweight, dbias (f32 [d]; dbias may be null) (+)= column sums over rows and
/// groups, in an order that depends only on rows and groups. x is the forward's input. dx_accumulate adds to
/// dx (f32 only: the residual gradient); weights_accumulate adds to dweight and dbias. dx may alias dy
/// exactly if not dx_accumulate. If y is not null, it receives the forward's output again, bit for bit, so
/// that it need not be saved; only then is bias read. If rounded is not null, it receives a copy of the
/// f32 dx, rounded to bf16; only for backends with Suited::rounded_gradients. workspace:
/// norm_backward_workspace_bytes(args).
struct NormBackward {
  void* dx = nullptr;
  float* dweight = nullptr;
  float* dbias = nullptr;
  const void* dy = nullptr;
  const void* x = nullptr;
  const void* weight = nullptr;
  const float* mean = nullptr;  ///< null: RMSNorm
  const float* rstd = nullptr;
  DType dx_type = DType::kF32, dy_type = DType::kF32, x_type = DType::kF32, weight_type = DType::kF32;
  int64_t rows = 0, groups = 1, d = 0, dx_stride = 0, dy_stride = 0, x_stride = 0;
  float weight_offset = 0.0f;
  bool dx_accumulate = false, weights_accumulate = false;
  void* workspace = nullptr;
  void* y = nullptr;  ///< f32 or bf16, addressed like x
  const void* bias = nullptr;
  DType y_type = DType::kF32;
  int64_t y_stride = 0;
  void* rounded = nullptr;  ///< bf16, addressed like dx
};

}  // namespace hawser::kernels
