// Context parallelism: ranks divide the columns of each row (nn/local_columns.h), so that a row may be longer
// than one rank's memory allows. Three methods compute attention over all columns behind the same interface:
//
//   gather    every rank gathers all keys and values at once; the other methods are tested against it
//   ring      keys and values are passed around the ranks; log-sum-exp merges partial results (Liu et al.,
//             arXiv:2310.01889, with the balanced order of columns of nn/local_columns.h)
//   ulysses   ranks exchange the local columns of all heads for all columns of local heads, and back (Jacobs
//             et al., arXiv:2309.14509)
//
// Bytes that a rank sends in a block of R local rows, with c ranks, H query and K key/value heads of D
// elements (V for values in latent attention) of e bytes each: gather and ring send (c-1) R K (D+V) e
// forward, and in backward the same plus (c-1) R K (D+V) in f32; a ring may send compressed rows narrower
// than K (D+V) (nn/column_exchange.h). Ulysses sends (c-1)/c R (H+K)(D+V) e in each direction, with K at
// least c.
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
  /// Rows in memory, `stride` elements apart.
  struct Array {
    void* data = nullptr;
    DType type = DType::kF32;
    int64_t stride = 0;
  };
  /// Copies `rows` rows of `width` elements; converts if the types differ.
  static void copy(const nn::Context& ctx, const Array& to, const Array& from, int64_t rows, int64_t width);
  /// Reorders rows between by_rank[c][B][local columns][width], the order in which ranks exchange them, and
  /// by_column[B][all columns][width].
  void order(const nn::Context& ctx, void* by_column, void* by_rank, DType type, int64_t width,
             bool to_ranks) const;
  /// Return the elements of a row of keys, and of a row of keys and values.
  static int64_t key_width(const kernels::AttentionShape& s) { return s.kv_heads * s.head_dim; }
  static int64_t kv_width(const kernels::AttentionShape& s) { return s.kv_heads * (s.head_dim + s.v_dim()); }
  /// Packs keys, then values of the local rows next to each other: [rows, K (D + V)], in the activation type.
  static void* pack(const nn::Context& ctx, const kernels::AttentionShape& s, const nn::AttentionInputs& in);
  /// Reverses pack, from f32 gradients.
  static void unpack(const nn::Context& ctx, const kernels::AttentionShape& s, const float* dkv,
                     const nn::AttentionGradients& to);
  /// Returns arguments for the queries of the first (0) or second (1) chunk of the local columns.
  kernels::AttentionForward of_half(const kernels::AttentionShape& s, int64_t half, void* o, DType o_type,
                                    float* lse, const void* q) const;
  kernels::AttentionBackward of_half(const kernels::AttentionShape& s, int64_t half, float* dq,
                                     int64_t dq_stride, const nn::AttentionCoreSaved& saved, const void* q,
                                     const void* d_o) const;
  /// Returns dq of the local rows as f32: in place if gradients are f32, else in the workspace.
  static float* take_dq(const nn::Context& ctx, const kernels::AttentionShape& s,
                        const nn::AttentionGradients& to, int64_t* stride);
  static void finish_dq(const nn::Context& ctx, const kernels::AttentionShape& s, const float* dq,
                        const nn::AttentionGradients& to);

  BlockWire& wire_;
};

/// Creates the exchange of context-parallel ranks. `wire` must outlive it.
std::unique_ptr<nn::ColumnExchange> make_column_exchange(mesh::ContextMode mode, BlockWire* wire);

}  // namespace hawser::parallel
