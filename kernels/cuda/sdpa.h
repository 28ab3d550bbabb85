// Sdpa: the thin interface between our attention and a library's fused kernels (cuDNN: cudnn/sdpa_cudnn.cc).
// Tests implement it by the CPU's kernels. Cases that do not fit it, or that the library does not support,
// use our own tiled kernels (attention.h).
#pragma once

#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/sizes/sdpa_shape.h"

namespace hawser::kernels::cuda {

/// Documents as ragged tensors, in device memory: the start of each document in elements of the tensor
/// (documents + 1 entries; those after the last document point after the last row), and its number of rows
/// (`documents` entries; 0 after the last).
struct DocumentTable {
  int64_t* q = nullptr;
  int64_t* kv = nullptr;
  int64_t* o = nullptr;
  int64_t* stats = nullptr;
  int32_t* rows = nullptr;
};

/// The tensors of AttentionForward and AttentionBackward. stats: the log of the sum of exponentials, f32
/// [batch, heads, seq]; with documents [rows, heads].
struct SdpaTensors {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;       ///< the backward reads it
  float* stats = nullptr;  ///< the backward reads it
  const void* dout = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  DocumentTable documents;
  void* workspace = nullptr;
};

/// One stream's use of the library. One thread at a time uses it, with the device current.
class Sdpa {
 public:
  virtual ~Sdpa() = default;

  /// True if there is a plan for the shape that needs at most this workspace. The first call creates the
  /// plan, which is kept. Under `deterministic`, only plans that give the same bits in every run count.
  virtual bool offers(const SdpaShape& shape, int64_t workspace_bytes) = 0;
  /// The library's version; other versions may give other bits.
  virtual int64_t version() const = 0;
  virtual bool deterministic() const = 0;
  /// Queues the call. Errors are stored in the stream. Only valid after offers() returned true.
  virtual void run(const SdpaShape& shape, const SdpaTensors& tensors, CudaStream& stream) = 0;
};

/// Fills `table`, in `memory` (of SdpaWorkspace::table_bytes), from the start of each query's document.
void fill_document_table(const SdpaShape& shape, const int32_t* kv_begin, void* memory, DocumentTable* table,
                         CudaStream& stream);

/// Convert stats [rows, heads] to lse [batch, heads, seq], and back.
void stats_to_lse(const SdpaShape& shape, float* lse, const float* stats, CudaStream& stream);
void lse_to_stats(const SdpaShape& shape, float* stats, const float* lse, CudaStream& stream);

}  // namespace hawser::kernels::cuda
