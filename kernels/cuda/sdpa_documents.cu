// Finds the documents of a batch on the device, so that the host needs to know only their maximum number.
// Also converts log-sum-exps between the order of our contract and the order of ragged tensors.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/sdpa.h"
#include "kernels/cuda/team.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / kWarpLanes;

struct Shared {
  int32_t begun[kWarps];  // number of documents that begin in the rows of each warp
};

struct Search {
  const int32_t* kv_begin;
  int64_t rows, seq, documents;
  int64_t q_stride, kv_stride, o_stride, heads;
  DocumentTable table;
  int32_t* first;  // the row where each document begins, documents + 1 entries
};

/// Finds the first rows of documents: one block visits all rows, kThreads at a time. A document begins at a
/// query that sees no key before itself.
__device__ __forceinline__ int64_t find_documents(const Search& s, Shared& shared) {
  const int lane = lane_of_thread(), warp = warp_of_thread();
  int64_t found = 0;
  for (int64_t row0 = 0; row0 < s.rows; row0 += kThreads) {
    const int64_t row = row0 + threadIdx.x;
    const bool begins = row < s.rows && s.kv_begin[row] == row % s.seq;
    const unsigned votes = __ballot_sync(kAllLanes, begins ? 1 : 0);
    if (lane == 0) shared.begun[warp] = __popc(votes);
    __syncthreads();
    int64_t before = found;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) before += shared.begun[w];
      found += shared.begun[w];
    }
    const int64_t index = before + __popc(votes & ((1u << lane) - 1));
    if (begins && index < s.documents) s.first[index] = static_cast<int32_t>(row);
    __syncthreads();
  }
  return found < s.documents ? found : s.documents;
}

__global__ void __launch_bounds__(kThreads) document_table_kernel(const Search s) {
  const int64_t found = find_documents(s, shared_memory<Shared>());
  for (int64_t i = threadIdx.x; i <= s.documents; i += kThreads) {
    const int64_t first = i < found ? s.first[i] : s.rows;
    s.table.q[i] = first * s.q_stride;
    s.table.kv[i] = first * s.kv_stride;
    s.table.o[i] = first * s.o_stride;
    s.table.stats[i] = first * s.heads;
    if (i == s.documents) continue;
    const int64_t behind = i + 1 < found ? s.first[i + 1] : s.rows;
    s.table.rows[i] = static_cast<int32_t>(behind - first);
  }
}

/// Returns the index in stats [rows, heads] of element i of lse [batch, heads, seq].
__device__ __forceinline__ int64_t in_stats(int64_t i, int64_t heads, int64_t seq) {
  const int64_t t = i % seq, h = i / seq % heads, b = i / seq / heads;
  return (b * seq + t) * heads + h;
}

struct Gather {
  float* lse;
  const float* stats;
  int64_t heads, seq;
  template <int N>
  __device__ void at(int64_t i) const {
    for (int k = 0; k < N; ++k) lse[i + k] = stats[in_stats(i + k, heads, seq)];
  }
};

struct Scatter {
  float* stats;
  const float* lse;
  int64_t heads, seq;
  template <int N>
  __device__ void at(int64_t i) const {
    for (int k = 0; k < N; ++k) stats[in_stats(i + k, heads, seq)] = lse[i + k];
  }
};

}  // namespace

void fill_document_table(const SdpaShape& shape, const int32_t* kv_begin, void* memory, DocumentTable* table,
                         CudaStream& stream) {
  const int64_t entries = shape.documents + 1;
  auto* const offsets = static_cast<int64_t*>(memory);
  auto* const rows = reinterpret_cast<int32_t*>(offsets + 4 * entries);
  *table = {offsets, offsets + entries, offsets + 2 * entries, offsets + 3 * entries, rows};
  const Search search = {kv_begin,        shape.rows(),   shape.seq,   shape.documents, shape.q_stride,
                         shape.kv_stride, shape.o_stride, shape.heads, *table,          rows + entries};
  launch(stream, "document_table", {grid(1), kThreads, sizeof(Shared)}, document_table_kernel, search);
}

void stats_to_lse(const SdpaShape& shape, float* lse, const float* stats, CudaStream& stream) {
  for_each_element(stream, "stats_to_lse", shape.rows() * shape.heads, false,
                   Gather{lse, stats, shape.heads, shape.seq});
}

void lse_to_stats(const SdpaShape& shape, float* stats, const float* lse, CudaStream& stream) {
  for_each_element(stream, "lse_to_stats", shape.rows() * shape.heads, false,
                   Scatter{stats, lse, shape.heads, shape.seq});
}

}  // namespace hawser::kernels::cuda
