// Tiled attention with online softmax, forward and backward (Dao, FlashAttention-2, arXiv 2307.08691). The
// [T,T] matrix is never stored.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"
#include "kernels/include/dropout.h"

namespace hawser::kernels {

/// Arguments of both directions. Row (b, t) of q is at q + (b * seq_q + t) * q_stride, its head h at + h *
/// head_dim. Row (b, s) of k and v is at + (b * seq_k + s) * kv_stride (kv_batch_rows rows between batches,
/// for caches), head h / (heads / kv_heads). Query t is at key position q_offset + t. Query i sees key j iff
/// j <= i, j >= kv_begin[b * seq_q + t] (if kv_begin), and i - j < window (if window > 0). Every query sees
/// at least itself. score = scale * q·k; with softcap c > 0: c * tanh(score / c). Dropout applies to the
/// probabilities after the softmax. scale > 0.
///
/// Softmax and all sums are fp32. If products use bf16 values (as matrix products do under precision bf16),
/// their operands are rounded to nearest even first: q, k, v and the probabilities relative to the maximum so
/// far; in the backward also dout and the gradients of the scores. The sum of probabilities, and so lse, uses
/// unrounded ones.
struct AttentionShape {
  DType type = DType::kF32;  ///< of q, k, v, o and their gradients, f32 or bf16
  int64_t batch = 0, seq_q = 0, seq_k = 0, q_offset = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t q_stride = 0, kv_stride = 0, o_stride = 0;
  int64_t kv_batch_rows = 0;  ///< rows between batches of k and v (= seq_k when dense)
  int64_t window = 0;
  float scale = 1.0f, softcap = 0.0f;
  bool round_to_bf16 = false;  ///< use bf16 values in products even if `type` is f32
  const int32_t* kv_begin = nullptr;
  /// A hint about kv_begin: each row of the batch is divided into documents, kv_begin is the start of the
  /// query's document, and the batch has at most this many documents. 0: unknown.
  int64_t documents = 0;
  int64_t first_head = 0;  ///< number of head 0 in the whole layer, for dropout
  Dropout dropout;
};

/// Whether products use bf16 values.
static inline bool multiplies_bf16(const AttentionShape& s) {
  return s.round_to_bf16 || s.type == DType::kBf16;
}

/// o[(b,t), h*head_dim + j] and lse f32 [batch, heads, seq_q] (natural log of the sum of exp of the capped
/// scores).
struct AttentionForward {
  AttentionShape s;
  void* o = nullptr;
  float* lse = nullptr;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* workspace = nullptr;  ///< attention_forward_workspace_bytes(args, workers)
};

/// dq, dk, dv (strides as q, k, v; overwritten) from dout (stride o_stride) and the results of forward.
/// Requires seq_q == seq_k, q_offset == 0. dq, dk, dv do not overlap the inputs. dk and dv are summed over
/// the query heads of their group in ascending order.
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
  void* workspace = nullptr;  ///< attention_backward_workspace_bytes(args, workers)
};

}  // namespace hawser::kernels
