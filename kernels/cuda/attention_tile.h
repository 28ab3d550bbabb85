// The parts that the attention kernels share: masks and addresses; and the tiles of the f32 kernels. A block
// of 16 x 16 threads works on tiles of kTile queries by kTile keys in shared memory, in fp32. Thread (y, x)
// has the scores of rows y + 16 r and columns x + 16 c, and of accumulated rows the columns 4 x + 64 m ..
// + 3.
#pragma once

#include "kernels/cuda/dropout.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"
#include "kernels/include/attention.h"

namespace hawser::kernels::cuda {

constexpr int kSide = 16, kAttentionThreads = kSide * kSide, kVector = 4;
constexpr int kPad =
    4;  ///< floats after each row of a tile, so that the vectors of sixteen rows lie in different banks
constexpr int64_t kLargestHead = 256;
constexpr size_t kSmallestSharedMemory = 99 << 10;  ///< bytes of a block, on the smallest of the GPUs for
                                                    ///< which we compile

__device__ __forceinline__ int thread_y() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ __forceinline__ int thread_x() { return static_cast<int>(threadIdx.x) % kSide; }

/// kRows rows of a head of up to kHead elements; later elements are zero.
template <int kRows, int kHead>
struct HeadTile {
  float row[kRows][kHead + kPad];
};

/// A number for each pair of a query and a key.
template <int kTile>
struct ScoreTile {
  float row[kTile][kTile + kPad];
};

/// Number of keys whose dropout bits share a word.
constexpr int kKeysPerWord = 16;

/// For each query of a tile, the keys [begin, end) that it sees (none if begin >= end) and, for dropout, one
/// bit for each key that is kept.
template <int kQueries, int kKeys = kQueries>
struct Mask {
  int32_t begin[kQueries], end[kQueries];
  uint16_t kept[kQueries][kKeys / kKeysPerWord];

  __device__ __forceinline__ bool sees_nothing(int row) const { return begin[row] >= end[row]; }
};

/// A block's query head: batch row b, query head h.
struct Head {
  int64_t b, h;
};

__device__ __forceinline__ int64_t query_at(const AttentionShape& s, Head head, int64_t t) {
  return (head.b * s.q_rows() + t) * s.q_stride + head.h * s.head_dim;
}
__device__ __forceinline__ int64_t out_at(const AttentionShape& s, Head head, int64_t t) {
  return (head.b * s.q_rows() + t) * s.o_stride + head.h * s.v_dim();
}
__device__ __forceinline__ int64_t lse_at(const AttentionShape& s, Head head, int64_t t) {
  return (head.b * s.heads + head.h) * s.q_rows() + t;
}
__device__ __forceinline__ int64_t key_at(const AttentionShape& s, int64_t b, int64_t kv_head, int64_t key) {
  return (b * s.kv_batch_rows + key) * s.kv_stride + kv_head * s.head_dim;
}
__device__ __forceinline__ int64_t value_at(const AttentionShape& s, int64_t b, int64_t kv_head,
                                            int64_t key) {
  return (b * s.kv_batch_rows + key) * s.kv_stride + kv_head * s.v_dim();
}
__device__ __forceinline__ int64_t kv_head_of(const AttentionShape& s, int64_t h) {
  return h / (s.heads / s.kv_heads);
}

/// A range of rows of queries or keys.
struct Rows {
  int64_t begin, end;
};

/// Loads rows first.. of a head of `size` elements into a tile; p is the address of row `first`, and rows are
/// `stride` elements apart. Rows outside of `valid` are not read and become zero. All threads must call it;
/// the caller adds barriers.
template <int kRows, int kHead>
__device__ __forceinline__ void load_head(HeadTile<kRows, kHead>& tile, const float* p, int64_t stride,
                                          int64_t first, Rows valid, int64_t size, bool wide) {
  constexpr int kChunks = kHead / kWide;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kAttentionThreads) {
    const int row = i / kChunks, start = i % kChunks * kWide;
    float x[kWide];
    const int64_t count = first + row >= valid.begin && first + row < valid.end ? size - start : 0;
    load_some(x, p + row * stride + start, count, wide);
    store<kWide>(tile.row[row] + start, x);
  }
}

/// Sets the ranges of keys that the queries t0.. see. Queries after the last one see none.
template <int kQueries, int kKeys>
__device__ __forceinline__ void load_ranges(Mask<kQueries, kKeys>& mask, const AttentionShape& s, int64_t b,
                                            int64_t t0) {
  const int row = static_cast<int>(threadIdx.x);
  if (row >= kQueries) return;
  const int64_t t = t0 + row, below = s.q_offset + t - s.k_offset;  // the key in the query's column
  int64_t begin = 0, end = below + 1 < s.seq_k ? below + 1 : s.seq_k;
  if (t >= s.seq_q || end < 0) {
    end = 0;
  } else {
    if (s.kv_begin != nullptr && s.kv_begin[b * s.q_rows() + t] - s.k_offset > begin)
      begin = s.kv_begin[b * s.q_rows() + t] - s.k_offset;
    if (s.window > 0 && below - s.window + 1 > begin) begin = below - s.window + 1;
  }
  mask.begin[row] = static_cast<int32_t>(begin);
  mask.end[row] = static_cast<int32_t>(end);
}

/// Returns the range of keys that any query of the tile sees; begin > end if none.
template <int kQueries, int kKeys>
__device__ __forceinline__ Rows seen_by_any(const Mask<kQueries, kKeys>& mask) {
  Rows all = {INT32_MAX, 0};
  for (int row = 0; row < kQueries; ++row) {
    if (mask.sees_nothing(row)) continue;
    if (mask.begin[row] < all.begin) all.begin = mask.begin[row];
    if (mask.end[row] > all.end) all.end = mask.end[row];
  }
  return all;
}

template <int kQueries, int kKeys>
__device__ __forceinline__ void load_kept(Mask<kQueries, kKeys>& mask, const AttentionShape& s, Head head,
                                          int64_t t0, int64_t key0) {
  if (s.dropout.p == 0.0f) return;
  constexpr int kWords = kKeys / kKeysPerWord, kBlocks = kKeysPerWord / 4;
  const uint64_t sample = s.dropout.samples[head.b];
  const int in_block =
      static_cast<int>(s.k_offset % 4);  // position of a word's first column in its Philox block
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * kWords; i += static_cast<int>(blockDim.x)) {
    const int row = i / kWords, word = i % kWords;
    const uint64_t position =
        (static_cast<uint64_t>(s.first_head + head.h) << 32) + static_cast<uint64_t>(s.q_offset + t0 + row);
    const int64_t first_block = (s.k_offset + key0) / 4 + word * kBlocks;
    unsigned bits = 0;
#pragma unroll
    for (int block = 0; block <= kBlocks; ++block) {
      if (block == kBlocks && in_block == 0) break;
      const Kept kept =
          kept_features(s.dropout, sample, position, static_cast<uint64_t>(first_block + block));
#pragma unroll
      for (int k = 0; k < 4; ++k) bits |= kept.feature[k] ? 1u << (block * 4 + k) : 0u;
    }
    mask.kept[row][word] = static_cast<uint16_t>(bits >> in_block);
  }
}

template <int kQueries, int kKeys>
__device__ __forceinline__ bool sees(const Mask<kQueries, kKeys>& mask, int row, int64_t key) {
  return key >= mask.begin[row] && key < mask.end[row];
}

/// Returns the dropout multiplier of the probability at (row, column).
template <int kQueries, int kKeys>
__device__ __forceinline__ float keep_factor(const Mask<kQueries, kKeys>& mask, const AttentionShape& s,
                                             int row, int column) {
  if (s.dropout.p == 0.0f) return 1.0f;
  const unsigned word = mask.kept[row][column / kKeysPerWord];
  return (word >> (column % kKeysPerWord) & 1) != 0 ? kept_scale(s.dropout) : 0.0f;
}

/// Returns the score of a product q · k, capped.
__device__ __forceinline__ float capped_score(const AttentionShape& s, float product) {
  float x = s.scale * product;
  if (s.softcap > 0) x = s.softcap * tanhf(x / s.softcap);
  return x;
}

/// Turns a score q · k into the probability after dropout, and dp = dout · v into the gradient of the score:
/// ds = p (m dp - delta) times the slope of the cap and the scale, where m is the dropout factor. `shared`
/// has the mask, lse and delta of the queries.
template <class Shared>
__device__ __forceinline__ void score_gradient(const Shared& shared, const AttentionShape& s, int row,
                                               int column, int64_t key0, float& score, float& dp) {
  float x = s.scale * score, slope = s.scale, p = 0.0f, ds = 0.0f;
  if (s.softcap > 0) {
    const float ratio = tanhf(x / s.softcap);
    x = s.softcap * ratio;
    slope *= fmaf(-ratio, ratio, 1.0f);
  }
  if (sees(shared.mask, row, key0 + column)) {
    p = expf(x - shared.lse[row]);
    const float keep = keep_factor(shared.mask, s, row, column);
    ds = p * (keep * dp - shared.delta[row]) * slope;
    p *= keep;
  }
  score = p;
  dp = ds;
}

/// Loads what was saved for the queries t0.. of a head: their lse, and their deltas from the workspace.
template <int kQueries>
__device__ __forceinline__ void load_saved(float (&lse)[kQueries], float (&delta)[kQueries],
                                           const AttentionBackward& a, Head head, int64_t t0) {
  const int row = static_cast<int>(threadIdx.x);
  const AttentionShape& s = a.s;
  if (row >= kQueries || t0 + row >= s.seq_q) return;
  lse[row] = a.lse[lse_at(s, head, t0 + row)];
  delta[row] = static_cast<const float*>(a.workspace)[(head.b * s.heads + head.h) * s.seq_q + t0 + row];
}

/// product[r][c] = a.row[y + 16 r] . b.row[x + 16 c], over the first `width` elements.
template <int kTile, int kHead>
__device__ __forceinline__ void multiply_heads(float (&product)[kTile / kSide][kTile / kSide],
                                               const HeadTile<kTile, kHead>& a,
                                               const HeadTile<kTile, kHead>& b, int width) {
  constexpr int kEach = kTile / kSide;
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
#pragma unroll
    for (int c = 0; c < kEach; ++c) product[r][c] = 0.0f;
  }
#pragma unroll 4
  for (int j = 0; j < width; j += kVector) {
    float left[kEach][kVector], right[kEach][kVector];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      load<kVector>(left[e], a.row[thread_y() + e * kSide] + j);
      load<kVector>(right[e], b.row[thread_x() + e * kSide] + j);
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
#pragma unroll
      for (int c = 0; c < kEach; ++c) {
#pragma unroll
        for (int k = 0; k < kVector; ++k) product[r][c] = fmaf(left[r][k], right[c][k], product[r][c]);
      }
    }
  }
}

/// The sums of rows y + 16 r of a [kTile, kHead] array, for the columns of thread x.
template <int kTile, int kHead>
struct HeadSums {
  static constexpr int kRows = kTile / kSide, kVectors = kHead / (kSide * kVector);
  float sum[kRows][kVectors][kVector] = {};

  /// sum[i] += weights[i][j] * values[j] over all j, with weights[i][j] from weight(i, j).
  template <class Weight>
  __device__ __forceinline__ void add_products(const HeadTile<kTile, kHead>& values, const Weight& weight) {
#pragma unroll 4
    for (int j = 0; j < kTile; ++j) {
      float x[kVectors][kVector];
#pragma unroll
      for (int m = 0; m < kVectors; ++m)
        load<kVector>(x[m], values.row[j] + thread_x() * kVector + m * kSide * kVector);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float w = weight(thread_y() + r * kSide, j);
#pragma unroll
        for (int m = 0; m < kVectors; ++m) {
#pragma unroll
          for (int k = 0; k < kVector; ++k) sum[r][m][k] = fmaf(w, x[m][k], sum[r][m][k]);
        }
      }
    }
  }

  /// Calls body(column, sum) for this thread's columns of row r.
  template <class Body>
  __device__ __forceinline__ void for_columns(int r, int64_t head_dim, const Body& body) const {
#pragma unroll
    for (int m = 0; m < kVectors; ++m) {
      const int64_t start = thread_x() * kVector + m * kSide * kVector;
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        if (start + k < head_dim) body(start + k, sum[r][m][k]);
      }
    }
  }

  /// Writes the columns of row r, times factor, to `p`, the start of the row.
  template <class T>
  __device__ __forceinline__ void store_row(T* p, int r, int64_t head_dim, float factor) const {
    for_columns(r, head_dim, [p, factor](int64_t column, float x) { p[column] = from_float<T>(x * factor); });
  }

  /// Writes zeros to the columns of row r.
  template <class T>
  __device__ __forceinline__ void clear_row(T* p, int r, int64_t head_dim) const {
    for_columns(r, head_dim, [p](int64_t column, float) { p[column] = from_float<T>(0.0f); });
  }

  /// Sets row r of `p` to `others` times itself plus the sums times `here`.
  __device__ __forceinline__ void merge_row(float* p, int r, int64_t head_dim, float others,
                                            float here) const {
    for_columns(r, head_dim, [p, others, here](int64_t column, float x) {
      p[column] = fmaf(others, p[column], x * here);
    });
  }
};

/// True if rows of q, k and v allow wide accesses to their heads.
inline bool reads_wide(const AttentionShape& s, const void* q, const void* k, const void* v) {
  return s.head_dim % kWide == 0 && s.v_dim() % kWide == 0 && wide_rows(q, s.q_stride, s.type) &&
         wide_rows(k, s.kv_stride, s.type) && wide_rows(v, s.kv_stride, s.type);
}

/// Number of elements of a head over which products are summed.
inline int product_width(int64_t head_dim) {
  return static_cast<int>((head_dim + kVector - 1) / kVector * kVector);
}

/// The weights of two results over different keys, by their log-sum-exps, and the log-sum-exp of both.
struct MergeWeights {
  float others, here, lse;

  __device__ __forceinline__ MergeWeights(float lse_here, float lse_others) {
    const float distance = lse_here - lse_others;
    const bool greater = distance > 0.0f;
    const float lesser = expf(greater ? -distance : distance), both = 1.0f + lesser;
    others = (greater ? lesser : 1.0f) / both;
    here = (greater ? 1.0f : lesser) / both;
    lse = (greater ? lse_here : lse_others) + log1pf(lesser);
  }
};

template <int kHeadSize>
struct HeadSize {
  static constexpr int kHead = kHeadSize;
};

/// Calls body(HeadSize<64, 128 or 256>) with the smallest size that fits head_dim; stores an error if none
/// does.
template <class Body>
void for_head_size(CudaStream& stream, const char* operation, int64_t head_dim, const Body& body) {
  if (head_dim <= 64) return body(HeadSize<64>{});
  if (head_dim <= 128) return body(HeadSize<128>{});
  if (head_dim <= kLargestHead) return body(HeadSize<256>{});
  stream.keep_unimplemented(operation, "heads of more than 256 elements");
}

}  // namespace hawser::kernels::cuda
