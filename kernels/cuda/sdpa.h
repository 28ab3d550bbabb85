// Attention by a library's fused kernels: the thin interface between our attention and cuDNN (cudnn/sdpa.cc),
// behind which tests put the CPU's kernels. What does not fit it, or what the library does not offer, is left
// to our own tiled kernels (attention.h).
#pragma once

#include "kernels/cuda/cuda_stream.h"
#include "kernels/include/attention.h"

namespace hawser::kernels::cuda {

/// All that chooses a plan. bf16, causal, seq queries and as many keys; strides are elements between rows.
struct SdpaShape {
  int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t q_stride = 0, kv_stride = 0, o_stride = 0, window = 0;
  int64_t documents = 0;  ///< 0: every row of the batch is one; else the most there may be, a power of two
  float scale = 1.0f;
  bool backward = false;

  bool operator==(const SdpaShape&) const = default;
  int64_t rows() const { return batch * seq; }
};

/// Documents as ragged tensors: where each begins, in elements of the tensor (documents + 1 entries; those
/// past the last document point behind the last row), and its rows (`documents` entries; 0 past the last).
/// Device memory.
struct DocumentTable {
  int64_t* q = nullptr;
  int64_t* kv = nullptr;
  int64_t* o = nullptr;
  int64_t* stats = nullptr;
  int32_t* rows = nullptr;
};

/// Tensors as AttentionForward and AttentionBackward have them. stats: the log of the sum of exponentials,
/// f32 [batch, heads, seq]; with documents [rows, heads].
struct SdpaTensors {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;       ///< backward: read
  float* stats = nullptr;  ///< backward: read
  const void* dout = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  DocumentTable documents;
  void* workspace = nullptr;
};

/// One stream's use of such a library. One thread at a time, its device current.
class Sdpa {
 public:
  virtual ~Sdpa() = default;

  /// Whether there is a plan for the shape that needs no more workspace; it is made at the first question and
  /// kept. Under `deterministic` only plans that give the same bits in every run.
  virtual bool offers(const SdpaShape& shape, int64_t workspace_bytes) = 0;
  /// Of the library: another one may give other bits.
  virtual int64_t version() const = 0;
  virtual bool deterministic() const = 0;
  /// Queues it. Errors go to the stream. Only after offers() said so.
  virtual void run(const SdpaShape& shape, const SdpaTensors& tensors, CudaStream& stream) = 0;
};

/// The shape of a problem that can be given to a library at all, as far as sizes alone tell. False: it cannot
/// be.
bool sdpa_shape(const AttentionShape& s, bool backward, SdpaShape* out);

/// How the workspace of such a problem is cut up: the table of documents and their statistics (only with
/// documents), then what the library may use.
struct SdpaWorkspace {
  int64_t table_bytes = 0, stats_bytes = 0, library_bytes = 0;
  int64_t bytes() const { return table_bytes + stats_bytes + library_bytes; }
};
SdpaWorkspace sdpa_workspace(const SdpaShape& shape);

/// Fills `table`, which begins at `memory` (SdpaWorkspace::table_bytes), from where each query's document
/// begins.
void fill_document_table(const SdpaShape& shape, const int32_t* kv_begin, void* memory, DocumentTable* table,
                         CudaStream& stream);

/// lse [batch, heads, seq] from stats [rows, heads], and back.
void stats_to_lse(const SdpaShape& shape, float* lse, const float* stats, CudaStream& stream);
void lse_to_stats(const SdpaShape& shape, float* stats, const float* lse, CudaStream& stream);

}  // namespace hawser::kernels::cuda
