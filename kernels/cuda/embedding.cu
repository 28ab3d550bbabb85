// Embedding look-up and its gradient. The gradient adds the rows of each index in ascending order, so its
// bits do not depend on the timing of threads. Rows are first sorted by index in the workspace: integer
// atomics count and place them. The block that owns an index then sorts the rows of this index before it adds
// them.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

template <class X, class T>
struct LookUp {
  EmbeddingForward a;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = i / a.d, j = i - row * a.d;
    const int64_t word = a.tokens[row] - a.first_word;
    float x[N] = {};
    if (word >= 0 && word < a.words) {
      load<N>(x, static_cast<const T*>(a.tokens_weight) + word * a.d + j);
#pragma unroll
      for (int k = 0; k < N; ++k) x[k] *= a.scale;
    }
    if (a.positions_weight != nullptr) {
      float place[N];
      load<N>(place, static_cast<const T*>(a.positions_weight) + a.positions[row] * a.d + j);
#pragma unroll
      for (int k = 0; k < N; ++k) x[k] += place[k];
    }
    store<N>(static_cast<X*>(a.x) + i, x);
  }
};

constexpr int kThreads = 128, kWarps = kThreads / kWarpLanes, kColumns = kThreads * kWide;
constexpr int kScanThreads = 1024;

/// Maximum rows of one index that are sorted. For an index with more rows, the block that owns it searches
/// all rows.
constexpr int kMostSorted = 2048;

/// Rows sorted by index. The rows of table row t are order[begin[t]] to order[begin[t + 1]].
struct RowsByIndex {
  int32_t* begin;  // [table_rows + 1]
  int32_t* order;  // [rows]

  explicit __device__ RowsByIndex(const EmbeddingBackward& a)
      : begin(static_cast<int32_t*>(a.workspace)), order(begin + a.table_rows + 1) {}
};

/// Returns the table row to which a row of dx belongs; -1: none.
__device__ __forceinline__ int64_t table_row_of(const EmbeddingBackward& a, int64_t row) {
  const int32_t index = a.index[row];
  const int64_t table_row = index - a.first;
  return index == a.skip || table_row < 0 || table_row >= a.table_rows ? -1 : table_row;
}

/// Adds rows whose indices are all distinct.
struct AddRow {
  EmbeddingBackward a;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = i / a.d, t = table_row_of(a, row);
    if (t < 0) return;
    float sum[N] = {}, dx[N];
    float* const out = a.dweight + t * a.d + (i - row * a.d);
    if (a.accumulate) load<N>(sum, out);
    load<N>(dx, a.dx + i);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += a.scale * dx[k];
    store<N>(out, sum);
  }
};

struct Count {
  EmbeddingBackward a;

  template <int N>
  __device__ void at(int64_t row) const {
    const int64_t t = table_row_of(a, row);
    if (t >= 0) atomicAdd(RowsByIndex(a).begin + t, 1);
  }
};

struct SharedScan {
  int32_t sums[kScanThreads];
};

/// Replaces each count by the end of its range, and the last count by the total. Runs in one block.
__global__ void __launch_bounds__(kScanThreads) ends_kernel(const EmbeddingBackward a) {
  auto& shared = shared_memory<SharedScan>();
  int32_t* const counts = RowsByIndex(a).begin;
  const int thread = static_cast<int>(threadIdx.x);
  int32_t before = 0;
  for (int64_t tile = 0; tile <= a.table_rows; tile += kScanThreads) {
    const int64_t t = tile + thread;
    shared.sums[thread] = t < a.table_rows ? counts[t] : 0;
    __syncthreads();
    for (int distance = 1; distance < kScanThreads; distance *= 2) {
      const int32_t other = thread >= distance ? shared.sums[thread - distance] : 0;
      __syncthreads();
      shared.sums[thread] += other;
      __syncthreads();
    }
    if (t <= a.table_rows) counts[t] = before + shared.sums[thread];
    before += shared.sums[kScanThreads - 1];
    __syncthreads();  // before the next tile overwrites the sums
  }
}

/// Puts each row into the last free place of its range. Afterwards, `begin` holds the beginnings of the
/// ranges.
struct PlaceRow {
  EmbeddingBackward a;

  template <int N>
  __device__ void at(int64_t row) const {
    const int64_t t = table_row_of(a, row);
    const RowsByIndex rows(a);
    if (t >= 0) rows.order[atomicSub(rows.begin + t, 1) - 1] = static_cast<int32_t>(row);
  }
};

struct Shared {
  union {
    int32_t rows[kMostSorted];
    unsigned matches[2][kWarps];
  };
};

/// Sorts the first `count` of the shared rows (bitonic sort of the next power of two).
__device__ void sort_rows(int count, Shared& shared) {
  int size = 1;
  while (size < count) size *= 2;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = count + thread; i < size; i += kThreads) shared.rows[i] = INT32_MAX;
  for (int length = 2; length <= size; length *= 2) {
    for (int distance = length / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int i = thread; i < size; i += kThreads) {
        const int other = i ^ distance;
        if (other < i) continue;
        const int32_t low = shared.rows[i], high = shared.rows[other];
        if ((low > high) == ((i & length) == 0)) shared.rows[i] = high, shared.rows[other] = low;
      }
    }
  }
  __syncthreads();
}

/// The sums of a thread: some columns of one table row.
struct ColumnSums {
  float sum[kWide] = {};

  template <int kRows>
  __device__ __forceinline__ void add(const EmbeddingBackward& a, const int32_t* rows, int64_t column,
                                      bool wide) {
    float dx[kRows][kWide];
#pragma unroll
    for (int r = 0; r < kRows; ++r) load_some(dx[r], a.dx + rows[r] * a.d + column, a.d - column, wide);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < kWide; ++k) sum[k] += a.scale * dx[r][k];
    }
  }
};

/// Searches all rows for one index, and adds the rows with this index.
__device__ void add_all_rows(const EmbeddingBackward& a, int64_t table_row, int64_t column,
                             ColumnSums& columns, Shared& shared, bool wide) {
  int turn = 0;
  for (int64_t begin = 0; begin < a.rows; begin += kThreads, ++turn) {
    const int64_t row = begin + threadIdx.x;
    const unsigned votes = __ballot_sync(kAllLanes, row < a.rows && table_row_of(a, row) == table_row);
    unsigned* const matches = shared.matches[turn % 2];  // alternates, so that one barrier per tile is enough
    if (lane_of_thread() == 0) matches[warp_of_thread()] = votes;
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) {
      for (unsigned left = matches[w]; left != 0; left &= left - 1) {
        const auto match = static_cast<int32_t>(begin + w * kWarpLanes + __ffs(static_cast<int>(left)) - 1);
        columns.add<1>(a, &match, column, wide);
      }
    }
  }
}

/// Each block computes kColumns columns of one table row.
__global__ void __launch_bounds__(kThreads) embedding_backward_kernel(const EmbeddingBackward a, bool wide) {
  auto& shared = shared_memory<Shared>();
  const RowsByIndex rows(a);
  const int64_t table_row = blockIdx.x;
  const int64_t column =
      static_cast<int64_t>(blockIdx.y) * kColumns + static_cast<int64_t>(threadIdx.x) * kWide;
  const int32_t begin = rows.begin[table_row], count = rows.begin[table_row + 1] - begin;
  if (count == 0) return;
  ColumnSums columns;
  float* out = a.dweight + table_row * a.d + column;
  if (a.accumulate) load_some(columns.sum, out, a.d - column, wide);
  if (count > kMostSorted) {
    add_all_rows(a, table_row, column, columns, shared, wide);
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
      shared.rows[i] = rows.order[begin + i];
    sort_rows(count, shared);
    int i = 0;
    for (; i + 4 <= count; i += 4) columns.add<4>(a, shared.rows + i, column, wide);
    for (; i < count; ++i) columns.add<1>(a, shared.rows + i, column, wide);
  }
  store_some(out, columns.sum, a.d - column, wide);
}

}  // namespace

void embedding_forward(const EmbeddingForward& args, Stream& stream) {
  const bool wide = args.d % kWide == 0 && all_wide({args.x, args.tokens_weight, args.positions_weight});
  for_type(args.x_type, [&](auto x) {
    for_type(args.weight_type, [&](auto weight) {
      for_each_element(cuda_stream(stream), "embedding_forward", args.rows * args.d, wide,
                       LookUp<type_of<decltype(x)>, type_of<decltype(weight)>>{args});
    });
  });
}

void embedding_backward(const EmbeddingBackward& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.d <= 0 || args.table_rows <= 0) return;
  const auto zero = [&](void* at, int64_t elements) {
    cuda.succeeded(cudaMemsetAsync(at, 0, static_cast<size_t>(elements) * 4, cuda.handle),
                   "embedding_backward");
  };
  if (!args.accumulate) zero(args.dweight, args.table_rows * args.d);
  if (args.rows <= 0) return;
  const bool aligned = all_wide({args.dweight, args.dx});
  if (args.distinct) {
    const bool wide = aligned && args.d % kWide == 0;
    return for_each_element(cuda, "embedding_backward", args.rows * args.d, wide, AddRow{args});
  }
  zero(args.workspace, args.table_rows);
  for_each_element(cuda, "embedding_backward", args.rows, false, Count{args});
  launch(cuda, "embedding_backward", {grid(1), kScanThreads, sizeof(SharedScan)}, ends_kernel, args);
  for_each_element(cuda, "embedding_backward", args.rows, false, PlaceRow{args});
  const bool wide = aligned && args.d % 4 == 0;
  const dim3 blocks(static_cast<unsigned>(args.table_rows),
                    static_cast<unsigned>(blocks_for(args.d, kColumns)));
  launch(cuda, "embedding_backward", {blocks, kThreads, sizeof(Shared)}, embedding_backward_kernel, args,
         wide);
}

}  // namespace hawser::kernels::cuda
