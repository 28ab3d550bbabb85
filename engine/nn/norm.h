// Norm: LayerNorm or RMSNorm with its parameters.
#pragma once

#include <cstdint>
#include <string>

#include "engine/nn/context.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

/// Rows of d elements. Group g of row r starts at p + r * stride + g * d.
struct NormRows {
  int64_t rows = 0, groups = 1, stride = 0;
};

/// Statistics that forward saves for backward.
struct NormSaved {
  float* mean = nullptr;  // LayerNorm only
  float* rstd = nullptr;
};

/// The residual stream that a block or the head reads, [rows, C].
struct StreamInput {
  const void* x;                 ///< the stream; if `sum` is set, the reader computes it
  kernels::ResidualForward sum;  ///< the sum that ends the block below, written to x; y is null if x is given

  StreamInput(const void* x_) : x(x_) {}
  StreamInput(const kernels::ResidualForward& sum_) : x(sum_.y), sum(sum_) {}
  bool is_sum() const { return sum.y != nullptr; }
};

/// The gradient of the residual stream, [rows, C].
struct StreamGradient {
  float* dx = nullptr;
  void* rounded = nullptr;  ///< dx rounded to bf16, if the backend keeps it (Suited::rounded_gradients)
  StreamGradient(float* dx_, void* rounded_ = nullptr) : dx(dx_), rounded(rounded_) {}
};

class NormLayer {
 public:
  /// Uses `prefix`.weight and, if the table has it, `prefix`.bias. `rms` selects RMSNorm regardless of the
  /// model's norm (for QK-norm). If `eps` is 0, the model's is used.
  NormLayer(const ParameterTable& table, const ModelConfig& model, const std::string& prefix,
            bool rms = false, double eps = 0);

  NormSaved take_saved(Region& region, int64_t vectors) const;
  /// Computes y (with its own stride) from x.
  void forward(const Context& ctx, const NormSaved& saved, void* y, DType y_type, int64_t y_stride,
               const void* x, DType x_type, NormRows rows) const;
  /// Computes the norm of the next value of the residual stream, dense rows computed in the same pass.
  void forward(const Context& ctx, const NormSaved& saved, void* y, DType y_type,
               const kernels::ResidualForward& x) const;
  /// Computes the norm of `rows` dense rows of the residual stream. If x is a sum, the same pass computes it.
  void forward(const Context& ctx, const NormSaved& saved, void* y, DType y_type, const StreamInput& x,
               int64_t rows) const;
  /// Computes dx (in dx_type) from dy and the forward's x, and the weight gradients.
  void backward(const Context& ctx, const NormSaved& saved, void* dx, DType dx_type, int64_t dx_stride,
                const void* dy, DType dy_type, int64_t dy_stride, const void* x, DType x_type,
                NormRows rows) const;
  /// For a norm in the residual stream: adds to the gradient of the stream, and recomputes the forward's
  /// output into y[rows, d] (activation type). All arrays are dense; x has ctx.residual_type.
  void backward_residual(const Context& ctx, const NormSaved& saved, const StreamGradient& dx, void* y,
                         const void* dy, DType dy_type, const void* x) const;
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
