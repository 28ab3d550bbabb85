// ExpertExchange: the way of rows to their experts and back. A group of ranks may divide the experts of a
// layer; all else of a mixture is computed by the rank that has the row, so this is the only place where it
// meets the others.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

namespace hawser::nn {

struct Context;
struct Routes;
class Dispatcher;
class Experts;
class Region;

/// The mixture that a call is for, and the rows that it has routed.
struct RoutedRows {
  const Dispatcher& dispatcher;
  const Experts& experts;
  const Routes& routes;
  const float* weights = nullptr;  ///< [rows, k] of the choices
};

/// What forward saves for backward.
struct ExpertsSaved {
  void* h =
      nullptr;  ///< per row of an expert F (gated: 2F) elements before the activation, of the activation type
  // Of ranks that divide experts only:
  void* x = nullptr;         ///< rows that came, [places, C]
  float* weights = nullptr;  ///< and their weights
  void* own = nullptr;       ///< own rows, [rows, C], if some may have to be sent again
  int32_t* ends = nullptr;   ///< [ranks, E] where the rows of each expert end, among those of a rank
  int32_t* offsets =
      nullptr;  ///< [ranks, E / ranks + 1] first row of each own expert, among those that came from a rank
};

/// What backward_input makes for the gradients of the weights.
struct ExpertsMade {
  void* dh = nullptr;
  void* a = nullptr;
  void* dy = nullptr;  ///< rows that came; of ranks that divide experts only
};

/// This class is the exchange of a group of one rank, which has all experts: nothing moves. Another overrides
/// it (parallel/expert_parallel.h). x and dy are [rows, C]. Calls throw what their process group throws.
class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;

  /// `kept`: for the weight half of a backward.
  virtual ExpertsSaved take_saved(const Context& ctx, const Dispatcher& dispatcher, const Experts& experts,
                                  Region& region, Region& kept) const;
  /// y[rows, C] (+)= the sums of what the experts make of x; f32. Without y it ends with what backward needs.
  /// Returns the number of rounds in which rows went to their experts.
  virtual int64_t forward(const Context& ctx, const RoutedRows& rows, const ExpertsSaved& saved, float* y,
                          const void* x, bool accumulate) const;
  /// Memory for what all gradients of weights need, then for what only those of the down projections do.
  virtual void take_weight_pass_inputs(const Context& ctx, const Dispatcher& dispatcher,
                                       const Experts& experts, Region& region, ExpertsMade* made) const;
  virtual void take_activation(const Context& ctx, const Dispatcher& dispatcher, const Experts& experts,
                               Region& region, ExpertsMade* made) const;
  /// dx[rows, C] (+)= the gradient of x, f32; fills dweights[rows, k] and `made`. Takes workspace that the
  /// caller frees.
  virtual void backward_input(const Context& ctx, const RoutedRows& rows, const ExpertsSaved& saved,
                              const ExpertsMade& made, float* dx, float* dweights, const void* dy,
                              DType dy_type, bool accumulate) const;
  virtual void backward_down_weight(const Context& ctx, const RoutedRows& rows, const ExpertsSaved& saved,
                                    const ExpertsMade& made, const void* dy, DType dy_type) const;
  virtual void backward_up_weight(const Context& ctx, const RoutedRows& rows, const ExpertsSaved& saved,
                                  const ExpertsMade& made, const void* x) const;
};

inline const ExpertExchange kAllExperts{};

}  // namespace hawser::nn
