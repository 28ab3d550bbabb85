// ColumnExchange: context parallelism as attention sees it. A group of ranks may divide the columns of each
// row (local_columns.h). All that a block computes row by row stays local; only attention needs the keys and
// values of other columns, so it is computed through this interface.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/nn/local_columns.h"
#include "kernels/include/attention.h"

namespace hawser::nn {

struct Context;

/// What keys and values of any rows can be made of, where it is narrower than they (latent attention). A ring
/// may then carry that.
class KeySource {
 public:
  virtual ~KeySource() = default;
  virtual int64_t width() const = 0;  ///< elements of a row
  /// Computes kv[rows, K (D + V)], keys and then values.
  virtual void make(const Context& ctx, void* kv, const void* source, int64_t rows) const = 0;
  /// Computes the f32 gradient of the source (or adds to it) and the weights' gradients from dkv, which is
  /// f32. `first`: of this call of the core; the weights' gradients of the others are added.
  virtual void backward(const Context& ctx, float* d_source, const void* source, const float* dkv,
                        int64_t rows, bool adds, bool first) const = 0;
};

/// Heads side by side in each row: q[rows, H D], k[rows, K D] and v[rows, K V], with their strides. V, the
/// size of a head's values, is D but in latent attention. Activation type.
struct AttentionInputs {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t q_stride = 0, kv_stride = 0;
  const KeySource* maker = nullptr;  ///< null: keys and values travel
  void* source = nullptr;            ///< of own rows; overwritten
};

/// Gradients, laid out as the inputs are.
struct AttentionGradients {
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float* d_source = nullptr;  ///< in place of dk and dv where the inputs have a maker
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
  explicit ColumnExchange(LocalColumns own = {}) : own_(own) {}
  virtual ~ColumnExchange() = default;

  const LocalColumns& own() const { return own_; }

  /// Computes saved.o and saved.lse. `shape` describes own rows: seq_q = seq_k = own columns.
  virtual void forward(const Context& ctx, const kernels::AttentionShape& shape,
                       const AttentionCoreSaved& saved, const AttentionInputs& in) const;
  /// Computes the gradients of the inputs (overwritten) from d_o[rows, H V] and the forward's inputs and
  /// results.
  virtual void backward(const Context& ctx, const kernels::AttentionShape& shape,
                        const AttentionCoreSaved& saved, const AttentionInputs& in,
                        const AttentionGradients& gradients, const void* d_o) const;
  /// Elements that forward keeps in saved.exchanged. If there are any, backward does not read the inputs.
  virtual int64_t exchanged_elements(const kernels::AttentionShape& /*shape*/) const { return 0; }

  /// Whether keys and values of a rank visit the others one after the other, so that inputs may have a maker.
  virtual bool is_ring() const { return false; }

  /// Replaces data[elements] by its sum over ranks.
  virtual void sum(float* /*data*/, int64_t /*elements*/) const {}
  /// Copies data[elements] of rank `root` to all ranks.
  virtual void broadcast(void* /*data*/, DType /*type*/, int64_t /*elements*/, int64_t /*root*/) const {}

 private:
  LocalColumns own_;
};

inline const ColumnExchange kAllColumns{};

}  // namespace hawser::nn
