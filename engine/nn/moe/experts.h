// Experts: many MLPs, each over its own rows, as one product per projection. The gate weight of a choice
// multiplies the activation before `down`, which is linear, so the weight's gradient needs no further saved
// activation.
//
// Under precision fp8 (experts_fp8.cc), each projection of a layer has one operand for each role, with one
// scale and one history for all experts. So rows are rounded without knowing which expert has them, an expert
// that no row chose for some steps has the scale of the others, and ranks gather as few maxima as for a dense
// layer. The loss of precision is small, because normal numbers of E4M3 span 14 powers of two, and those of
// E5M2 span 29. Under recipe "blocks", blocks begin with the weights and with the rows of each expert.
#pragma once

#include <cstdint>

#include "engine/nn/compressed_saved.h"
#include "engine/nn/context.h"
#include "engine/nn/model_config.h"

namespace hawser::nn {

/// Rows of this rank's experts, sorted by expert.
struct ExpertRows {
  const int32_t* offsets = nullptr;  ///< [experts + 1] first row of each expert
  const float* weights = nullptr;    ///< row p has weights[order[p]]; a null order is the identity
  const int32_t* order = nullptr;
  int64_t count = 0;         ///< the largest row count that `offsets` may contain
  int64_t room = 0;          ///< the row count for which there is workspace
  int64_t first_expert = 0;  ///< number of this rank's first expert, for biases, which every rank has in full
};

class Experts {
 public:
  Experts(const ParameterTable& table, const ModelConfig& model, int64_t layer);

  int64_t count() const { return experts_; }  ///< number of this rank's experts
  int64_t width() const { return width_; }
  int64_t features() const { return features_; }
  int64_t out() const { return out_; }  ///< elements of h for each row
  /// Returns rows of x that are saved for the gradients of the up projections.
  SavedRows saved_input(const Context& ctx, int64_t rows) const {
    return SavedRows::of_operand(ctx, rows, width_, first().operand(Fp8Role::kInput));
  }

  /// Computes y[rows, C] (f32) from x[rows, C], activation type, and fills h: F (gated: 2F) elements of each
  /// row before the activation, in the activation type. If y is null, it computes only h.
  void forward(const Context& ctx, void* h, const ExpertRows& rows, float* y, const void* x) const;
  /// Take memory for h or its gradient, and for the weighted activation.
  void* take_dh(const Context& ctx, Region& region, int64_t places) const;
  void* take_activation(const Context& ctx, Region& region, int64_t places) const;
  /// Computes dx[rows, C] (f32) and dweights, laid out like the weights, from dy[rows, C]. Fills `dh` and
  /// `a`.
  void backward_input(const Context& ctx, const void* h, const ExpertRows& rows, void* dh, void* a,
                      float* dweights, float* dx, const void* dy, DType dy_type) const;
  /// If `adds` is set, the gradient of these rows is computed separately and then added to the sum.
  void backward_down_weight(const Context& ctx, const ExpertRows& rows, const void* a, const void* dy,
                            DType dy_type, bool adds = false) const;
  void backward_up_weight(const Context& ctx, const ExpertRows& rows, const void* dh, const void* x,
                          bool adds = false) const;

 private:
  /// The weights of one projection of all experts.
  struct Stack {
    Place place;
    int64_t parameter = 0;  // its number in the table
    int64_t operand(Fp8Role role) const { return fp8_operand(parameter, role); }
  };
  const Stack& first() const { return gated_ ? gate_ : up_; }
  kernels::ExpertActivation activation(const Context& ctx, const void* h, const ExpertRows& rows) const;
  kernels::GroupedMatmul product(const Context& ctx, const ExpertRows& rows) const;
  void run(const Context& ctx, kernels::GroupedMatmul m, const ExpertRows& rows) const;
  void multiply(const Context& ctx, kernels::GroupedMatmul m, const ExpertRows& rows, const Stack& stack,
                bool notes) const;
  const void* factor(const Context& ctx, const Stack& stack, bool notes) const;
  const void* input(const Context& ctx, const ExpertRows& rows, const void* x, int64_t n, const Stack& stack,
                    Fp8Sum sum) const;
  const void* down_gradient(const Context& ctx, const ExpertRows& rows, const void* dy, DType* type,
                            Fp8Sum sum) const;
  const void* up_gradient(const Context& ctx, const ExpertRows& rows, const void* dh, Fp8Sum sum) const;
  kernels::GroupedRows grouped(const Context& ctx, const ExpertRows& rows) const;
  void add_bias(const Context& ctx, const ExpertRows& rows, void* h, Place place) const;
  void sum_bias(const Context& ctx, const ExpertRows& rows, const void* dh, Place place, bool adds) const;
  void sum(const Context& ctx, kernels::GroupedMatmul m, const ExpertRows& rows, Place place,
           bool adds) const;

  bool gated_;
  kernels::Activation kind_;
  int64_t experts_, width_, features_, out_;  // C, F, F or 2F
  Stack gate_, up_, down_;
  int64_t all_experts_;  // on all ranks
  Place gate_bias_, up_bias_;
};

}  // namespace hawser::nn
