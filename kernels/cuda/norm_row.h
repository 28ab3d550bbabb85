// How norms keep a row: each thread of a team holds up to kChunks chunks of kWide elements in registers, so
// that a row is read from memory once. Rows of up to 1024 elements use a warp, longer rows a block.
#pragma once

#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {

/// The longest row that the largest team can hold.
constexpr int64_t kLongestNorm = 16384;

constexpr int kNormWarps = 4;  ///< rows that a block of warp teams handles at a time

/// Returns the position of a thread's chunk k in a row.
template <class Team>
__device__ __forceinline__ int64_t chunk_start(int k) {
  return (static_cast<int64_t>(k) * Team::size() + Team::rank()) * kWide;
}

/// Reads or writes a thread's chunks of a row of d elements.
template <class Team, int kChunks, class T>
__device__ __forceinline__ void load_row(float (&x)[kChunks][kWide], const T* row, int64_t d, bool wide) {
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int64_t start = chunk_start<Team>(k);
    load_some(x[k], row + start, d - start, wide);
  }
}

template <class Team, int kChunks, class T>
__device__ __forceinline__ void store_row(T* row, const float (&x)[kChunks][kWide], int64_t d, bool wide) {
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int64_t start = chunk_start<Team>(k);
    store_some(row + start, x[k], d - start, wide);
  }
}

/// Loads kWide elements of weights or biases, whose type is known at run time; zeros if there are none.
__device__ __forceinline__ void load_weight(float* out, const void* weight, DType type, int64_t start,
                                            int64_t count, bool wide) {
  if (weight == nullptr) count = 0;
  if (type == DType::kBf16) {
    load_some(out, static_cast<const bf16*>(weight) + start, count, wide);
  } else {
    load_some(out, static_cast<const float*>(weight) + start, count, wide);
  }
}

/// A team and the number of chunks per thread, as template types; and the number of threads of a block, which
/// limits the registers of each thread.
template <class TeamType, int kChunkCount, int kBlockThreads>
struct RowShape {
  using Team = TeamType;
  static constexpr int kChunks = kChunkCount, kMostThreads = kBlockThreads;
};

/// Number of threads of a block, and of rows that it processes at a time.
struct RowBlock {
  int threads;
  int teams;
};

template <int kChunks>
RowBlock block_team(int64_t chunks) {
  const int64_t threads = blocks_for(chunks, kChunks);
  return {static_cast<int>((threads + kWarpLanes - 1) / kWarpLanes * kWarpLanes), 1};
}

/// Calls body(RowShape, RowBlock) for rows of d elements; stores an error if they are too long.
template <class Body>
void for_row_shape(CudaStream& stream, const char* operation, int64_t d, const Body& body) {
  constexpr RowBlock kWarpTeams = {kNormWarps * kWarpLanes, kNormWarps};
  const int64_t chunks = blocks_for(d, kWide);
  if (chunks <= 32) return body(RowShape<WarpTeam, 1, 128>{}, kWarpTeams);
  if (chunks <= 96) return body(RowShape<WarpTeam, 3, 128>{}, kWarpTeams);
  if (chunks <= 128) return body(RowShape<WarpTeam, 4, 128>{}, kWarpTeams);
  if (chunks <= 1024) return body(RowShape<BlockTeam, 2, 512>{}, block_team<2>(chunks));
  if (d <= kLongestNorm) return body(RowShape<BlockTeam, 4, 512>{}, block_team<4>(chunks));
  stream.keep_unimplemented(operation, "rows of more than 16384 elements");
}

}  // namespace hawser::kernels::cuda
