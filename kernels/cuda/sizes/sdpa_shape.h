// SdpaShape: the cases of attention that a library may compute (sdpa.h), and the memory that they need.
#pragma once

#include "kernels/include/attention.h"

namespace hawser::kernels::cuda {

/// Everything that determines a plan. The operands are bf16, the mask is causal, and there are seq queries
/// and seq keys of head_dim elements; values and results have value_dim. Strides are elements between rows.
struct SdpaShape {
  int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  int64_t q_stride = 0, kv_stride = 0, o_stride = 0, window = 0;
  /// 0: every row of the batch is one document; otherwise the maximum number of documents, a power of two
  int64_t documents = 0;
  float scale = 1.0f;
  bool backward = false;

  bool operator==(const SdpaShape&) const = default;
  int64_t rows() const { return batch * seq; }
};

/// Returns the library's shape for a problem, or false if its sizes cannot be passed to a library.
bool sdpa_shape(const AttentionShape& s, bool backward, SdpaShape* out);

/// The division of the problem's workspace: the table of documents and their statistics (only with
/// documents), then the library's part.
struct SdpaWorkspace {
  int64_t table_bytes = 0, stats_bytes = 0, library_bytes = 0;
  int64_t bytes() const { return table_bytes + stats_bytes + library_bytes; }
};
SdpaWorkspace sdpa_workspace(const SdpaShape& shape);

/// True if the results have the library's form: the operands' type, new memory, and rows with the stride of
/// the operands' rows.
inline bool is_plain(const AttentionForward& a) { return !a.merge && !a.f32_out; }
inline bool is_plain(const AttentionBackward& a) {
  return !a.accumulate_q && !a.accumulate_kv && !a.f32_out &&
         (a.dq_stride == 0 || a.dq_stride == a.s.q_stride) &&
         (a.dkv_stride == 0 || a.dkv_stride == a.s.kv_stride);
}

}  // namespace hawser::kernels::cuda
