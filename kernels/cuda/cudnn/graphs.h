// Attention as cuDNN graphs: the tensors, masks and options for a shape. Building a graph queries only the
// version of cuDNN and the device of the runtime. The frontend takes half a minute to compile, so only one
// file includes this header.
#pragma once

#include <cudnn_frontend.h>

#include <memory>

#include "kernels/cuda/cudnn/tensor_uid.h"
#include "kernels/cuda/sdpa.h"

namespace hawser::kernels::cuda::cudnn {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// The tensors of one graph. With documents, each element of cuDNN's batch is a document (ragged), and seq is
/// the largest number of rows in a document.
class Tensors {
 public:
  Tensors(fe::graph::Graph& graph, const SdpaShape& s)
      : graph_(graph), s_(s), batch_(s.documents > 0 ? s.documents : s.batch) {
    if (s.documents == 0) return;
    rows_ = graph.tensor(column("rows", kRows, s.documents).set_data_type(fe::DataType_t::INT32));
    q_begin_ = offsets("q_begin", kQBegin);
    kv_begin_ = offsets("kv_begin", kKvBegin);
    o_begin_ = offsets("o_begin", kOBegin);
    stats_begin_ = offsets("stats_begin", kStatsBegin);
  }

  Tensor q() { return graph_.tensor(q_like("q", kQ)); }
  Tensor k() { return graph_.tensor(k_like("k", kK)); }
  Tensor v() { return graph_.tensor(v_like("v", kV)); }
  Tensor o() { return graph_.tensor(o_like("o", kO)); }
  Tensor dout() { return graph_.tensor(o_like("dout", kDout)); }
  Tensor stats() { return graph_.tensor(stats_like()); }
  const Tensor& rows() const { return rows_; }

  fe::graph::Tensor_attributes q_like(const char* name, Uid uid) const {
    return heads(name, uid, {s_.heads, s_.head_dim, s_.q_stride}, q_begin_);
  }
  fe::graph::Tensor_attributes k_like(const char* name, Uid uid) const {
    return heads(name, uid, {s_.kv_heads, s_.head_dim, s_.kv_stride}, kv_begin_);
  }
  fe::graph::Tensor_attributes v_like(const char* name, Uid uid) const {
    return heads(name, uid, {s_.kv_heads, s_.value_dim, s_.kv_stride}, kv_begin_);
  }
  fe::graph::Tensor_attributes o_like(const char* name, Uid uid) const {
    return heads(name, uid, {s_.heads, s_.value_dim, s_.o_stride}, o_begin_);
  }
  /// The layout of statistics: [batch, heads, seq]; with documents [rows, heads].
  fe::graph::Tensor_attributes stats_like() const {
    fe::graph::Tensor_attributes t;
    t.set_name("stats")
        .set_uid(kStats)
        .set_dim({batch_, s_.heads, s_.seq, 1})
        .set_data_type(fe::DataType_t::FLOAT);
    if (s_.documents == 0) return t.set_stride({s_.heads * s_.seq, s_.seq, 1, 1});
    return t.set_stride({s_.heads * s_.seq, 1, s_.heads, 1}).set_ragged_offset(stats_begin_);
  }

 private:
  /// The heads of a row, side by side.
  struct Heads {
    int64_t count, dim, stride;
  };

  static fe::graph::Tensor_attributes column(const char* name, Uid uid, int64_t n) {
    fe::graph::Tensor_attributes t;
    t.set_name(name).set_uid(uid).set_dim({n, 1, 1, 1}).set_stride({1, 1, 1, 1});
    return t;
  }
  Tensor offsets(const char* name, Uid uid) {
    return graph_.tensor(column(name, uid, s_.documents + 1).set_data_type(fe::DataType_t::INT64));
  }
  fe::graph::Tensor_attributes heads(const char* name, Uid uid, const Heads& h, const Tensor& begin) const {
    fe::graph::Tensor_attributes t;
    t.set_name(name)
        .set_uid(uid)
        .set_dim({batch_, h.count, s_.seq, h.dim})
        .set_stride({s_.seq * h.stride, h.dim, h.stride, 1});
    if (begin) t.set_ragged_offset(begin);
    return t;
  }

  fe::graph::Graph& graph_;
  const SdpaShape& s_;
  const int64_t batch_;
  Tensor rows_, q_begin_, kv_begin_, o_begin_, stats_begin_;
};

/// Sets the masks, which are the same in both directions: causal, the window's i - j < window, and documents
/// as separate sequences.
template <class Attributes>
void set_masks(Attributes& attributes, const SdpaShape& s, const Tensors& tensors) {
  attributes.set_attn_scale(s.scale)
      .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  if (s.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(s.window));
  if (s.documents > 0)
    attributes.set_padding_mask(true).set_seq_len_q(tensors.rows()).set_seq_len_kv(tensors.rows());
}

/// Gives an output the layout of a tensor like `like`.
inline void lay_out(const Tensor& output, fe::graph::Tensor_attributes like) {
  output->set_output(true).set_uid(like.get_uid()).set_dim(like.get_dim()).set_stride(like.get_stride());
  output->set_data_type(like.get_data_type());
  if (like.get_ragged_offset()) output->set_ragged_offset(like.get_ragged_offset());
}

inline void add_forward(fe::graph::Graph& graph, const SdpaShape& s) {
  Tensors tensors(graph, s);
  auto attributes = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
  set_masks(attributes, s, tensors);
  const auto [o, stats] = graph.sdpa(tensors.q(), tensors.k(), tensors.v(), attributes);
  lay_out(o, tensors.o_like("o", kO));
  lay_out(stats, tensors.stats_like());
}

inline void add_backward(fe::graph::Graph& graph, const SdpaShape& s, bool deterministic) {
  Tensors tensors(graph, s);
  auto attributes = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
  attributes.set_deterministic_algorithm(deterministic);
  set_masks(attributes, s, tensors);
  if (s.documents > 0) attributes.set_max_total_seq_len_q(s.rows()).set_max_total_seq_len_kv(s.rows());
  const auto [dq, dk, dv] = graph.sdpa_backward(tensors.q(), tensors.k(), tensors.v(), tensors.o(),
                                                tensors.dout(), tensors.stats(), attributes);
  lay_out(dq, tensors.q_like("dq", kDq));
  lay_out(dk, tensors.k_like("dk", kDk));
  lay_out(dv, tensors.v_like("dv", kDv));
}

/// Builds the forward or the backward, by the shape. `deterministic`: a backward with the same bits in every
/// run, or none.
inline std::shared_ptr<fe::graph::Graph> attention_graph(const SdpaShape& shape, bool deterministic) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (shape.backward) {
    add_backward(*graph, shape, deterministic);
  } else {
    add_forward(*graph, shape);
  }
  return graph;
}

}  // namespace hawser::kernels::cuda::cudnn
