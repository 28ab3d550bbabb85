// Tiled attention with online softmax, forward and backward (Dao, FlashAttention-2, arXiv 2307.08691). The
// [T,T] matrix is never stored.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"
#include "kernels/include/dropout.h"

namespace hawser::kernels {

/// Arguments of both directions. Row (b, t) of q is at q + (b * q_rows() + t) * q_stride, its head h at + h *
/// head_dim. Row (b, s) of k and v is at + (b * kv_batch_rows + s) * kv_stride, head h / (heads / kv_heads).
/// Heads of v, o and dout have v_dim() elements. Queries and keys are parts of a longer row: query t is in
/// its column i = q_offset + t, key s in column j = k_offset + s. A query sees a key iff j <= i, j >=
/// kv_begin[b * q_rows() + t] (if kv_begin), and i - j < window (if window > 0); it may see none of these
/// keys. score = scale * q·k; with softcap c > 0: c * tanh(score / c). Dropout applies to the probabilities
/// after the softmax, by columns. scale > 0.
///
/// Softmax and all sums are fp32. If products use values of a narrow type (as matrix products do under
/// precisions bf16 and fp16),
/// their operands are first rounded to nearest even: q, k, v and the probabilities relative to the maximum so
/// far; in the backward also dout and the gradients of the scores. The sum of probabilities, and so lse, uses
/// unrounded probabilities.
struct AttentionShape {
  DType type = DType::kF32;  ///< type of q, k, v and dout, f32, bf16 or f16
  int64_t batch = 0, seq_q = 0, seq_k = 0, q_offset = 0, k_offset = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t value_dim = 0;  ///< elements of a head of v, o and dout; 0: head_dim
  int64_t q_stride = 0, kv_stride = 0, o_stride = 0;
  int64_t q_batch_rows = 0;   ///< rows between batches of q, o, lse, kv_begin and their gradients; 0: seq_q
  int64_t kv_batch_rows = 0;  ///< rows between batches of k and v (= seq_k when dense)
  int64_t window = 0;
  float scale = 1.0f, softcap = 0.0f;
  DType round_to = DType::kF32;  ///< use values of this type in products even if `type` is f32
  const int32_t* kv_begin = nullptr;
  /// A hint about kv_begin: each row of the batch is divided into documents, kv_begin is the start of the
  /// query's document, and the batch has at most this many documents. 0: unknown.
  int64_t documents = 0;
  int64_t first_head = 0;  ///< number of head 0 in the whole layer, for dropout and `largest`
  Dropout dropout;
  /// CPU, forward, without softcap: if not null, largest[first_head + h] is raised to the largest score that
  /// a query of head h has with a key that it sees. A maximum does not depend on the order of its
  /// operands, so neither do its bits on how calls, tiles and workers divide the rows.
  float* largest = nullptr;

  constexpr int64_t q_rows() const { return q_batch_rows > 0 ? q_batch_rows : seq_q; }
  constexpr int64_t v_dim() const { return value_dim > 0 ? value_dim : head_dim; }
  constexpr int64_t larger_dim() const { return v_dim() > head_dim ? v_dim() : head_dim; }
};

/// Returns the type of the values that products use.
static constexpr inline DType product_type(const AttentionShape& s) {
  return s.type != DType::kF32 ? s.type : s.round_to;
}

/// Computes o[(b,t), h*v_dim() + j] and lse f32 [batch, heads, q_rows()] (natural log of the sum of exp of
/// the capped scores). A query that sees none of the keys gets o = 0 and lse = -infinity.
struct AttentionForward {
  AttentionShape s;
  void* o = nullptr;
  float* lse = nullptr;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* workspace = nullptr;  ///< attention_forward_workspace_bytes(args, workers)
  bool f32_out = false;       ///< o is f32 even if s.type is narrow
  /// o (f32) and lse hold the result over other keys and become the result over both. With m the larger lse
  /// and w = exp(lse - m): o = (w1 o1 + w2 o2) / (w1 + w2), lse = m + log(w1 + w2) (Liu et al., Ring
  /// Attention, arXiv 2310.01889).
  bool merge = false;
};

/// Computes dq, dk, dv from dout (stride o_stride), o (s.type) and lse, the results of a forward over all
/// keys; the keys of this call may be some of them. dq, dk, dv must not overlap the inputs. They are
/// overwritten, with 0 for rows that see nothing. dk and dv are summed over the query heads of their group in
/// ascending order.
struct AttentionBackward {
  AttentionShape s;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  const void* dout = nullptr;
  const void* o = nullptr;
  const float* lse = nullptr;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* workspace = nullptr;   ///< attention_backward_workspace_bytes(args, workers)
  bool f32_out = false;        ///< dq, dk, dv are f32 even if s.type is narrow; accumulation implies it
  bool accumulate_q = false;   ///< add to dq, which is f32, instead of overwriting it
  bool accumulate_kv = false;  ///< likewise for dk and dv; the two flags are independent
  int64_t dq_stride = 0, dkv_stride = 0;  ///< elements between rows; 0: q_stride, kv_stride
  /// CPU: if the partial sums of dq for all heads need more bytes than this, fewer heads are processed at a
  /// time, but enough to keep all workers busy. Changes no bit of the results.
  int64_t share_bytes = int64_t{256} << 20;
};

/// True if dq, dk and dv are f32.
static constexpr inline bool has_f32_gradients(const AttentionBackward& a) {
  return a.s.type == DType::kF32 || a.f32_out || a.accumulate_q || a.accumulate_kv;
}

}  // namespace hawser::kernels
