// Mlp: the feed-forward branch, made of up projection, GELU or a gated activation, and down projection. With
// RecomputeSet::rows it works on that many rows at a time. Then its activations need workspace for one tile
// of rows only, and backward recomputes a hidden array that was not saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/nn/branch_sum.h"
#include "engine/nn/compressed_saved.h"
#include "engine/nn/context.h"
#include "engine/nn/gathered_rows.h"
#include "engine/nn/linear.h"
#include "engine/nn/model_config.h"

namespace hawser::nn {

/// Per row: F (gated: 2F) elements before the activation, and F after it if the activation is fused into
/// products, in the activation type.
struct MlpSaved {
  void* h = nullptr;
  void* a = nullptr;
};

kernels::Activation activation_of(MlpKind kind);
/// Returns the projections that read the input: PREFIX.up, after PREFIX.gate if there is a gate.
std::vector<std::string> up_names(MlpKind kind, const std::string& prefix);

class Mlp {
 public:
  Mlp(const ParameterTable& table, const ModelConfig& model, int64_t layer);

  /// True if backward recomputes the hidden arrays itself, tile by tile; nothing is saved then.
  static bool remakes_in_tiles(const Context& ctx) { return ctx.remakes.rows > 0 && ctx.remakes.mlp_hidden; }

  /// Takes memory from `region`, and from `kept` for the arrays that the weight pass of a backward reads.
  MlpSaved take_saved(const Context& ctx, Region& region, Region& kept) const;
  /// Return the types of y and dx below.
  DType y_type(const Context& ctx) const { return down_.writes_once() ? ctx.branch_type() : DType::kF32; }
  DType dx_type(const Context& ctx) const { return up_.writes_once() ? ctx.branch_type() : DType::kF32; }
  /// Computes addends of y[rows, C] from x[rows, C] (the normalised input, activation type). If y is null, it
  /// computes only the saved activations.
  void forward(const Context& ctx, const MlpSaved& saved, const BranchSum* y, GatheredRows* x) const;
  /// Take memory for the gradient of the up projection's output, and for the activation unless forward saved
  /// it.
  void* take_dh(const Context& ctx, Region& region) const;
  void* take_activation(const Context& ctx, const MlpSaved& saved, Region& region) const;
  /// Computes addends of dx[rows, C] from dy[rows, C]. Fills `dh` and, unless forward saved it, the
  /// activation `a`.
  void backward_input(const Context& ctx, const MlpSaved& saved, void* dh, void* a, const BranchSum& dx,
                      GatheredRows* dy, DType dy_type) const;
  /// Computes dx like backward_input, but tile by tile, from dy and the forward's x; with `weights`, also the
  /// gradients of all weights. `dh` and `a` receive the arrays of all rows; null: each tile has its own in
  /// the workspace.
  void backward_in_tiles(const Context& ctx, const MlpSaved& saved, void* dh, void* a, const BranchSum& dx,
                         const void* dy, DType dy_type, const void* x, bool weights) const;
  /// Computes the gradients of the down projection, from dy and `a`.
  void backward_down_weight(const Context& ctx, void* a, const void* dy, DType dy_type) const;
  /// Computes the gradients of the up projection, from `dh` and the forward's x.
  void backward_up_weight(const Context& ctx, const void* dh, const void* x) const;

  /// Returns rows of x that are saved for backward_up_weight.
  SavedRows saved_input(const Context& ctx, int64_t rows) const { return up_.saved_input(ctx, rows); }

 private:
  bool in_products(const Context& ctx) const;
  MlpSaved take_hidden(const Context& ctx, int64_t rows) const;
  MlpSaved rows_of(const Context& ctx, const MlpSaved& saved, int64_t begin) const;
  SavedRows hidden(const Context& ctx) const;
  SavedRows activation(const Context& ctx) const;
  void hide(const Context& ctx, const MlpSaved& saved, GatheredRows* x) const;
  const void* activated(const Context& ctx, const MlpSaved& saved) const;
  void backward_hidden(const Context& ctx, const MlpSaved& saved, void* dh, void* a, GatheredRows* dy,
                       DType dy_type) const;
  void activate(const Context& ctx, const MlpSaved& saved, void* a) const;
  void activation_backward(const Context& ctx, const MlpSaved& saved, void* dh, void* da) const;

  bool gated_;
  kernels::Activation kind_;
  Linear up_, down_;
};

}  // namespace hawser::nn
