// ColumnExchange: context parallelism as attention sees it. A group of ranks may divide the columns of each row
// (own_columns.h). All that a block computes row by row stays local; only attention needs the keys and values of other
// columns, so it is computed through this interface.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/nn/own_columns.h"
#include "kernels/include/attention.h"

namespace hawser::nn {

struct Context;

/// Heads side by side in each row: q[rows, H D], k[rows, K D] and v[rows, K V], with their strides. V, the size of a head's
/// values, is D but in latent attention. Activation type.
struct AttentionInputs {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t q_stride = 0, kv_stride = 0;
};

/// Gradients, laid out as the inputs are.
struct AttentionGradients {
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

/// What forward saves for backward. Per row: H V elements of the output and H floats.
struct AttentionCoreSaved {
  void* o = nullptr;          ///< [rows, H V], the output
  float* lse = nullptr;       ///< [B, H, T], log-sum-exp of each row of scores
  void* exchanged = nullptr;  ///< ColumnExchange::exchanged_elements; null if none
};

/// This class is the exchange of a group of one rank, which has all columns. Others override it
/// (parallel/context_parallel.h). Calls throw what their process group throws.
class ColumnExchange {
 public:
  explicit ColumnExchange(OwnColumns own = {}) : own_(own) {}
  virtual ~ColumnExchange() = default;

  const OwnColumns& own() const { return own_; }

  /// Computes saved.o and saved.lse. `shape` describes own rows: seq_q = seq_k = own columns.
  virtual void forward(const Context& ctx, const kernels::AttentionShape& shape,
                       const AttentionCoreSaved& saved, const AttentionInputs& in) const;
  /// Computes the gradients of the inputs (overwritten) from d_o[rows, H V] and the forward's inputs and results.
  virtual void backward(const Context& ctx, const kernels::AttentionShape& shape,
                        const AttentionCoreSaved& saved, const AttentionInputs& in,
                        const AttentionGradients& gradients, const void* d_o) const;
  /// Elements that forward keeps in saved.exchanged. If there are any, backward does not read the inputs.
  virtual int64_t exchanged_elements(const kernels::AttentionShape& /*shape*/) const { return 0; }

  /// Replaces data[elements] by its sum over ranks.
  virtual void sum(float* /*data*/, int64_t /*elements*/) const {}
  /// Copies data[elements] of rank `root` to all ranks.
  virtual void broadcast(void* /*data*/, DType /*type*/, int64_t /*elements*/, int64_t /*root*/) const {}

 private:
  OwnColumns own_;
};

inline const ColumnExchange kAllColumns{};

}  // namespace hawser::nn
