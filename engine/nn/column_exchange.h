// ColumnExchange: the interface through which attention uses context parallelism. A group of ranks may divide
// the columns of each row (local_columns.h). Everything that a block computes row by row stays local; only
// attention needs keys and values of other ranks' columns.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/nn/attention_sinks.h"
#include "engine/nn/local_columns.h"
#include "kernels/include/attention.h"

namespace hawser::nn {

struct Context;

/// A narrower source from which a rank can compute the keys and values of any rows (latent attention). A ring
/// may carry the source instead of keys and values.
class KeySource {
 public:
  virtual ~KeySource() = default;
  virtual int64_t width() const = 0;  ///< elements of a row
  /// Computes kv[rows, K (D + V)], keys and then values.
  virtual void make(const Context& ctx, void* kv, const void* source, int64_t rows) const = 0;
  /// Computes the f32 gradient of the source (or adds to it) and the weights' gradients from dkv, which is
  /// f32. `first` is true for the first call within one call of the core; later calls add to the weights'
  /// gradients.
  virtual void backward(const Context& ctx, float* d_source, const void* source, const float* dkv,
                        int64_t rows, bool adds, bool first) const = 0;
};

/// Heads next to each other in each row: q[rows, H D], k[rows, K D] and v[rows, K V], with their strides, in
/// the activation type. V, the size of a head's values, differs from D only in latent attention.
struct AttentionInputs {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t q_stride = 0, kv_stride = 0;
  const KeySource* maker = nullptr;  ///< null if the ring carries keys and values
  void* source = nullptr;            ///< source of the local rows; overwritten
  AttentionSinks sinks = {};         ///< of the local heads
};

/// Gradients, laid out as the inputs are.
struct AttentionGradients {
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float* d_source = nullptr;  ///< set instead of dk and dv if the inputs have a maker
};

/// Results that forward saves for backward. Per row: H V elements of the output and H floats.
struct AttentionCoreSaved {
  void* o = nullptr;          ///< [rows, H V], the output
  float* lse = nullptr;       ///< [B, H, T], log-sum-exp of each row of scores
  void* exchanged = nullptr;  ///< ColumnExchange::exchanged_elements; null if none
};

/// This class serves a group of one rank, which has all columns. Subclasses communicate
/// (parallel/context_parallel.h). Calls throw the errors of their process group.
class ColumnExchange {
 public:
  explicit ColumnExchange(LocalColumns own = {}) : own_(own) {}
  virtual ~ColumnExchange() = default;

  const LocalColumns& own() const { return own_; }

  /// Computes saved.o and saved.lse. `shape` describes local rows: seq_q = seq_k = local columns.
  virtual void forward(const Context& ctx, const kernels::AttentionShape& shape,
                       const AttentionCoreSaved& saved, const AttentionInputs& in) const;
  /// Computes the gradients of the inputs (overwritten) from d_o[rows, H V] and the forward's inputs and
  /// results.
  virtual void backward(const Context& ctx, const kernels::AttentionShape& shape,
                        const AttentionCoreSaved& saved, const AttentionInputs& in,
                        const AttentionGradients& gradients, const void* d_o) const;
  /// Returns the number of elements that forward stores in saved.exchanged. If there are any, backward does
  /// not read the inputs.
  virtual int64_t exchanged_elements(const kernels::AttentionShape& /*shape*/) const { return 0; }

  /// True if each rank's keys and values are passed around a ring, so that inputs may have a maker.
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
