// ExpertExchange: sends rows to the ranks that hold their experts and brings the results back. Everything
// else in a mixture runs on the rank that owns the row, so expert parallelism communicates only here.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

namespace hawser::nn {

struct Context;
struct Routes;
class Dispatcher;
class Experts;
class Region;

/// The mixture that makes a call, and the rows that it has routed.
struct RoutedRows {
  const Dispatcher& dispatcher;
  const Experts& experts;
  const Routes& routes;
  const float* weights = nullptr;  ///< [rows, k] gate weights of the choices
};

/// Activations that forward saves for backward.
struct ExpertsSaved {
  void* h = nullptr;  ///< per row of an expert, F (gated: 2F) elements before the activation
  // The following arrays are used only if ranks divide the experts:
  void* x = nullptr;           ///< received rows, [places, C], as Experts::saved_input keeps them
  float* weights = nullptr;    ///< gate weights of the received rows
  void* own = nullptr;         ///< local rows, [rows, C], if some may have to be sent again
  int32_t* ends = nullptr;     ///< [ranks, E] end of each expert's rows among the rows of a rank
  int32_t* offsets = nullptr;  ///< [ranks, E / ranks + 1] first row of each local expert, by sending rank
};

/// Intermediates that backward_input stores for the gradients of the weights.
struct ExpertsMade {
  void* dh = nullptr;
  void* a = nullptr;
  void* dy = nullptr;  ///< received rows; used only if ranks divide the experts
};

/// This class serves a group of one rank, which has all experts: it moves nothing. A subclass communicates
/// (parallel/expert_parallel.h). x and dy are [rows, C]. Calls throw the errors of their process group.
class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;

  /// Takes memory from `region`, and from `kept` for the arrays that the weight pass of a backward reads.
  virtual ExpertsSaved take_saved(const Context& ctx, const Dispatcher& dispatcher, const Experts& experts,
                                  Region& region, Region& kept) const;
  /// Computes y[rows, C] (+)= the sums of the experts' outputs for x, in f32. If y is null, it computes only
  /// what backward needs. Returns the number of rounds in which rows were sent to their experts.
  virtual int64_t forward(const Context& ctx, const RoutedRows& rows, const ExpertsSaved& saved, float* y,
                          const void* x, bool accumulate) const;
  /// Take memory: the first for arrays that all gradients of weights need, the second for those that only the
  /// gradients of the down projections need.
  virtual void take_weight_pass_inputs(const Context& ctx, const Dispatcher& dispatcher,
                                       const Experts& experts, Region& region, ExpertsMade* made) const;
  virtual void take_activation(const Context& ctx, const Dispatcher& dispatcher, const Experts& experts,
                               Region& region, ExpertsMade* made) const;
  /// Computes dx[rows, C] (+)= the gradient of x, in f32; fills dweights[rows, k] and `made`. Takes workspace
  /// that the caller frees.
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
