// Norm: LayerNorm or RMSNorm with its parameters.
#pragma once

#include <cstdint>
#include <string>

#include "engine/nn/context.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

/// Rows of d elements at p + row * stride + group * d.
struct NormRows {
  int64_t rows = 0, groups = 1, stride = 0;
};

/// What backward needs of a forward, besides its input.
struct NormSaved {
  float* mean = nullptr;  // LayerNorm only
  float* rstd = nullptr;
};

class NormLayer {
 public:
  /// `prefix`.weight and, where the table has it, `prefix`.bias. rms: RMSNorm whatever the model's norm
  /// (QK-norm).
  NormLayer(const ParameterTable& table, const ModelConfig& model, const std::string& prefix,
            bool rms = false);

  NormSaved take_saved(Region& region, int64_t vectors) const;
  /// y (own stride) from x.
  void forward(const Context& ctx, const NormSaved& saved, void* y, DType y_type, int64_t y_stride,
               const void* x, DType x_type, NormRows rows) const;
  /// The same of the residual stream's next value, dense f32 rows that are made in the same pass.
  void forward(const Context& ctx, const NormSaved& saved, void* y, DType y_type,
               const kernels::ResidualForward& x) const;
  /// dx of dx_type from dy and the forward's x; weight gradients.
  void backward(const Context& ctx, const NormSaved& saved, void* dx, DType dx_type, int64_t dx_stride,
                const void* dy, DType dy_type, int64_t dy_stride, const void* x, DType x_type,
                NormRows rows) const;
  /// Of a norm in the residual stream: adds to dx; y[rows, d] of the activation type gets what the forward
  /// gave, once more. All dense, f32 but for y.
  void backward_residual(const Context& ctx, const NormSaved& saved, float* dx, void* y, const float* dy,
                         const float* x) const;
  int64_t width() const { return d_; }

 private:
  kernels::NormForward arguments(const Context& ctx, const NormSaved& saved, void* y, DType y_type) const;
  kernels::NormBackward backward_arguments(const Context& ctx, const NormSaved& saved) const;
  void run(const Context& ctx, kernels::NormBackward n) const;

  Place weight_, bias_;
  int64_t d_ = 0;
  bool rms_;
  float eps_, weight_offset_;
};

}  // namespace hawser::nn
