// Linear: y = x W^T + b over one weight, or over several stacked ones (q, k, v; gate, up) that are contiguous
// in memory, so that one matrix product computes them all. Weights may be one rank's share of larger ones
// (nn/parameter.h): of the outputs, or of the inputs; in the second case y is an addend, and one rank adds
// the bias. Key and value weights that several ranks share are stored apart from those of the queries.
// Adapters (adapter.h) add to y and to dx, and compute their own gradients in `backward_weight`. They cannot
// be combined with a fused GELU; Mlp::in_products decides that. If an adapter has magnitudes (magnitude.h),
// parts are computed one by one (linear_magnitude.cc). Under precision fp8, products read rounded operands
// (linear_fp8.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/nn/adapter.h"
#include "engine/nn/compressed_saved.h"
#include "engine/nn/context.h"
#include "engine/nn/magnitude.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class Linear {
 public:
  /// Stacks prefix.weight for each prefix in order, and prefix.bias if the table has one.
  Linear(const ParameterTable& table, const std::vector<std::string>& prefixes);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  bool has_adapter() const { return !adapters_.empty(); }
  bool has_magnitudes() const;
  /// Returns rows of x that are saved for backward_weight. Adapters read them unrounded.
  SavedRows saved_input(const Context& ctx, int64_t rows) const {
    if (has_adapter()) return {false, rows, in_};
    return SavedRows::of_operand(ctx, rows, in_, parts_.front().operand(Fp8Role::kInput));
  }
  /// True if one product writes the output, one product writes the input's gradient, and nothing is added to
  /// either. Only then may they be narrower than f32.
  bool writes_once() const { return stacks_.size() == 1 && adapters_.empty(); }

  /// Computes y[rows, out] (stride ldy) from x[rows, in] (dense, activation type).
  void forward(const Context& ctx, void* y, DType y_type, int64_t ldy, const void* x, int64_t rows) const;
  /// Computes only one stacked part: y[rows, out of the part], activation type.
  void forward_part(const Context& ctx, size_t part, void* y, int64_t ldy, const void* x, int64_t rows) const;
  /// Computes forward with a fused GELU, for backends that support it (Suited::epilogues): h is the output of
  /// forward and a = GELU(h) in its tanh form. Both are dense, in the activation type.
  void forward_gelu(const Context& ctx, void* a, void* h, const void* x, int64_t rows) const;
  /// Computes dx[rows, in] (overwritten) from dy[rows, out], both dense. Gradients of the residual stream
  /// stay f32; the product rounds them itself. If `adds` is set, it adds to dx, which must be f32, instead of
  /// overwriting it.
  void backward_input(const Context& ctx, void* dx, DType dx_type, const void* dy, DType dy_type,
                      int64_t rows, bool adds = false) const;
  /// Computes backward_input for x = GELU(h) of forward_gelu: the result is dh[rows, in], activation type.
  void backward_input_gelu(const Context& ctx, void* dh, const void* h, const void* dy, DType dy_type,
                           int64_t rows) const;
  /// Computes the gradients of weight and bias from dy and the forward's x.
  void backward_weight(const Context& ctx, const void* dy, DType dy_type, const void* x, int64_t rows) const;
  /// Returns the bytes of TiledSums for all gradients of backward_weight.
  int64_t tiled_sum_bytes(const Context& ctx) const;

 private:
  struct Columns {
    Place weight, bias;
    int64_t begin, out;     // first column, number of columns
    bool whole = true;      // its biases are contiguous, or there are none
    int64_t parameter = 0;  // index of the weight in the table; of a stack, of its first
    Magnitude magnitude = {};
    int64_t operand(Fp8Role role) const { return fp8_operand(parameter, role); }
  };
  void add_adapters(const ParameterTable& table, const std::vector<std::string>& prefixes);
  const void* weight(const Context& ctx, const Columns& stack) const;
  bool trains(const Context& ctx) const;
  /// True if the weight of a part is in a stack.
  static bool holds(const Columns& stack, const Columns& part) {
    return part.begin >= stack.begin && part.begin < stack.begin + stack.out;
  }
  const void* input(const Context& ctx, const void* x, int64_t rows, Fp8Sum sum,
                    kernels::Fp8Factor* factor) const;
  const void* factor(const Context& ctx, const Columns& stack, const void* weight, bool notes,
                     kernels::Fp8Factor* factor) const;
  Fp8Operand gradient_operand(const Columns& part, const void* dy, DType type, int64_t rows,
                              Fp8Sum sum) const;
  const void* gradient(const Context& ctx, const void* dy, DType* type, int64_t rows, Fp8Sum sum) const;
  kernels::Fp8Factor gradient_factor(const Context& ctx, const Columns& stack, const void* dy, DType type,
                                     int64_t rows, Fp8Sum sum) const;
  const float* bias(const Context& ctx, const Columns& part) const;
  void add_adapters_to(const Context& ctx, const Columns& part, void* y, DType y_type, int64_t ldy,
                       const void* x, int64_t rows) const;
  void forward_columns(const Context& ctx, const Columns& part, void* y, DType y_type, int64_t ldy,
                       const void* x, int64_t rows) const;
  void scaled_columns(const Context& ctx, const Columns& part, void* y, DType y_type, int64_t ldy,
                      const void* x, int64_t rows) const;
  void unscaled_columns(const Context& ctx, const Columns& part, float* z, int64_t ldz, const void* weight,
                        const void* x, int64_t rows) const;
  const void* scaled_gradient(const Context& ctx, const void* dy, DType dy_type, const void* x,
                              int64_t rows) const;
  void product(const Context& ctx, const Columns& part, kernels::Matmul m, const void* x, int64_t rows) const;
  void multiply(const Context& ctx, const Columns& part, kernels::Matmul m, const void* weight, const void* x,
                int64_t rows) const;
  void input_gradient(const Context& ctx, const Columns& stack, kernels::Matmul m, const void* dy,
                      DType dy_type, int64_t rows) const;
  void sum_bias_gradients(const Context& ctx, const Columns& stack, const void* dy, DType dy_type,
                          int64_t rows) const;

  std::vector<Columns> parts_;   // one for each prefix
  std::vector<Columns> stacks_;  // parts with contiguous weights
  std::vector<Adapter> adapters_;
  int64_t in_ = 0, out_ = 0;
  bool cuts_inputs_ = false;
};

}  // namespace hawser::nn
