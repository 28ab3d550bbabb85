// Context parallelism: ranks divide the columns of each row (nn/local_columns.h), so that a row may be longer
// than one rank's memory. Three ways to compute attention over all columns, all with the same interface:
//
//   gather    every rank gets all keys and values at once: the plain form that the others are tested against
//   ring      keys and values travel around the ranks; partial results meet by log-sum-exp (Liu et al.,
//             arXiv:2310.01889, with the balanced order of columns of nn/local_columns.h)
//   ulysses   ranks change from own columns of all heads to all columns of own heads, and back (Jacobs et
//             al., arXiv:2309.14509)
//
// Bytes that a rank sends in a block, of R own rows, c ranks, H query and K key/value heads of D (of latent
// attention, V where values are meant), elements of e bytes: gather and ring (c-1) R K (D+V) e forward, and
// backward as many plus (c-1) R K (D+V) in f32; a ring may carry something narrower than K (D+V)
// (nn/column_exchange.h). Ulysses (c-1)/c R (H+K)(D+V) e each way, with K at least c.
#pragma once

#include <memory>

#include "engine/mesh/mesh_config.h"
#include "engine/nn/column_exchange.h"
#include "engine/nn/context.h"
#include "engine/parallel/block_wire.h"

namespace hawser::parallel {

class ContextParallel : public nn::ColumnExchange {
 public:
  /// `wire` must outlive the exchange.
  explicit ContextParallel(BlockWire* wire) : ColumnExchange({wire->ranks(), wire->rank()}), wire_(*wire) {}

  void sum(float* data, int64_t elements) const override { wire_.all_reduce(data, DType::kF32, elements); }
  void broadcast(void* data, DType type, int64_t elements, int64_t root) const override {
    wire_.broadcast(data, type, elements, root);
  }

 protected:
  /// Copies `rows` rows of `width` elements, as many apart as the strides say; converts if the types differ.
  struct Array {
    void* data = nullptr;
    DType type = DType::kF32;
    int64_t stride = 0;
  };
  static void copy(const nn::Context& ctx, const Array& to, const Array& from, int64_t rows, int64_t width);
  /// Moves rows between by_rank[c][B][own columns][width], in which ranks exchange them, and by_column[B][all
  /// columns][width].
  void order(const nn::Context& ctx, void* by_column, void* by_rank, DType type, int64_t width,
             bool to_ranks) const;
  /// Elements of a row of keys, and of a row of keys and values.
  static int64_t key_width(const kernels::AttentionShape& s) { return s.kv_heads * s.head_dim; }
  static int64_t kv_width(const kernels::AttentionShape& s) { return s.kv_heads * (s.head_dim + s.v_dim()); }
  /// Keys, then values of own rows side by side: [rows, K (D + V)], of the activation type.
  static void* pack(const nn::Context& ctx, const kernels::AttentionShape& s, const nn::AttentionInputs& in);
  /// The reverse, from f32 gradients.
  static void unpack(const nn::Context& ctx, const kernels::AttentionShape& s, const float* dkv,
                     const nn::AttentionGradients& to);
  /// Arguments for the queries of one half (0 or 1) of the own columns.
  kernels::AttentionForward of_half(const kernels::AttentionShape& s, int64_t half, void* o, DType o_type,
                                    float* lse, const void* q) const;
  kernels::AttentionBackward of_half(const kernels::AttentionShape& s, int64_t half, float* dq,
                                     int64_t dq_stride, const nn::AttentionCoreSaved& saved, const void* q,
                                     const void* d_o) const;
  /// dq of own rows as f32: in place where gradients are f32, else from the workspace.
  static float* take_dq(const nn::Context& ctx, const kernels::AttentionShape& s,
                        const nn::AttentionGradients& to, int64_t* stride);
  static void finish_dq(const nn::Context& ctx, const kernels::AttentionShape& s, const float* dq,
                        const nn::AttentionGradients& to);

  BlockWire& wire_;
};

/// The exchange of context-parallel ranks. `wire` must outlive it.
std::unique_ptr<nn::ColumnExchange> make_column_exchange(mesh::ContextMode mode, BlockWire* wire);

}  // namespace hawser::parallel
