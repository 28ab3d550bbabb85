// Decides which cases of attention a library can compute, and plans the memory that they need.
#include "kernels/cuda/sizes/sdpa_shape.h"

#include "kernels/cuda/sizes/aligned.h"

namespace hawser::kernels::cuda {
namespace {

/// Rounds up to a power of two, so that there are few shapes and plans, however many documents a batch has.
int64_t power_of_two_from(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

}  // namespace

bool sdpa_shape(const AttentionShape& s, bool backward, SdpaShape* out) {
  constexpr int64_t kVector = 8, kLargestHead = 256;  // kVector elements have 16 bytes
  const bool narrow = s.type == DType::kBf16 && s.softcap == 0.0f && s.dropout.p == 0.0f;
  const bool square = s.seq_q == s.seq_k && s.seq_q > 1 && s.q_offset == 0 && s.k_offset == 0 &&
                      s.q_rows() == s.seq_q && s.kv_batch_rows == s.seq_k;
  const bool even = s.head_dim % kVector == 0 && s.v_dim() % kVector == 0 && s.larger_dim() <= kLargestHead &&
                    s.q_stride % kVector == 0 && s.kv_stride % kVector == 0 && s.o_stride % kVector == 0;
  const bool known = s.kv_begin == nullptr || s.documents > 0;
  if (!narrow || !square || !even || !known) return false;
  *out = SdpaShape{.batch = s.batch,
                   .seq = s.seq_q,
                   .heads = s.heads,
                   .kv_heads = s.kv_heads,
                   .head_dim = s.head_dim,
                   .value_dim = s.v_dim(),
                   .q_stride = s.q_stride,
                   .kv_stride = s.kv_stride,
                   .o_stride = s.o_stride,
                   .window = s.window < s.seq_q ? s.window : 0,
                   .documents = s.kv_begin != nullptr ? power_of_two_from(s.documents) : 0,
                   .scale = s.scale,
                   .backward = backward};
  return true;
}

/// Workspace bytes of a deterministic backward. It needs no sums of dq, but a [seq, seq] matrix of bf16 per
/// head: for as many heads at a time as fill a GPU, and at least for one group that shares keys. `sums` is
/// the size of the other data that all heads together need. Returns 0 if even one group is too large.
int64_t deterministic_bytes(const SdpaShape& s, int64_t sums) {
  constexpr int64_t kSuited = int64_t{256} << 20, kMost = int64_t{2} << 30;
  const int64_t side = (s.seq + 127) / 128 * 128, head = side * side * 2;
  const int64_t all = s.batch * s.heads * head, group = s.heads / s.kv_heads * head;
  if (group > kMost) return 0;
  const int64_t suited = group > kSuited ? group : kSuited, matrices = all < suited ? all : suited;
  const double share = static_cast<double>(matrices) / static_cast<double>(all);
  return aligned(matrices + static_cast<int64_t>(share * static_cast<double>(sums)));
}

/// Plans the workspace. The library's part has what cuDNN's frontend needs for a backward without a [seq,
/// seq] matrix, plus some for the plan itself: fp32 sums of dq (with documents, with the stride of its rows);
/// with shared heads, dk and dv of every query head before they are summed; and a sum for each query.
SdpaWorkspace sdpa_workspace(const SdpaShape& s) {
  constexpr int64_t kSome = int64_t{4} << 20, kFloat = sizeof(float);
  SdpaWorkspace w;
  const int64_t head_rows = s.batch * ((s.seq + 127) / 128 * 128) * s.heads;
  w.library_bytes = kSome;
  if (s.documents > 0) {
    w.table_bytes = aligned(4 * (s.documents + 1) * static_cast<int64_t>(sizeof(int64_t)) +
                            2 * (s.documents + 1) * static_cast<int64_t>(sizeof(int32_t)));
    w.stats_bytes = aligned(s.rows() * s.heads * kFloat);
  }
  if (!s.backward) return w;
  const int64_t sharing = s.heads / s.kv_heads;
  const int64_t dense = head_rows * (s.head_dim + (sharing > 1 ? s.head_dim + s.value_dim : 0));
  const int64_t ragged = s.rows() * (s.q_stride + (sharing > 1 ? 2 * s.kv_stride * sharing : 0));
  const int64_t sums = aligned((s.documents > 0 && ragged > dense ? ragged : dense) * kFloat +
                               head_rows * kFloat + head_rows * s.value_dim * 2);
  const int64_t matrices = s.documents > 0 ? 0 : deterministic_bytes(s, sums);
  w.library_bytes += sums > matrices ? sums : matrices;
  return w;
}

}  // namespace hawser::kernels::cuda
