// Embedding lookup and its backward. The backward runs in parallel over columns, not rows: each task visits
// the rows in ascending order, so the sums are the same for every number of workers, however often a token
// occurs.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 16384;  ///< elements of one task

/// out = scale * token (+ position), d elements. Without a token, out is zero (+ position).
template <class X, class T>
HWS_INLINE void embed_row(X* out, const T* token, const T* position, float scale, int64_t d) {
  for (int64_t j = 0; j < d; j += kLanes) {
    const int n = d - j < kLanes ? static_cast<int>(d - j) : kLanes;
    vf x = token != nullptr ? vmul(vset(scale), load_n(token + j, n)) : vzero();
    if (position != nullptr) x = vadd(x, load_n(position + j, n));
    store_n(out + j, x, n);
  }
}

template <class X, class T>
void forward_typed(const EmbeddingForward& args, Stream& stream) {
  const T* tokens = static_cast<const T*>(args.tokens_weight);
  const T* positions = static_cast<const T*>(args.positions_weight);
  const int64_t grain = args.d > 0 && args.d < kGrain ? kGrain / args.d : 1;
  parallel_ranges(stream, args.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t word = args.tokens[r] - args.first_word;
      embed_row(static_cast<X*>(args.x) + r * args.d,
                word >= 0 && word < args.words ? tokens + word * args.d : nullptr,
                positions == nullptr ? nullptr : positions + args.positions[r] * args.d, args.scale, args.d);
    }
  });
}

/// Adds columns [begin, end) of all rows.
void add_columns(const EmbeddingBackward& args, int64_t begin, int64_t end) {
  const vf scale = vset(args.scale);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t row = args.index[r] - args.first;
    if (args.index[r] == args.skip || row < 0 || row >= args.table_rows) continue;
    float* to = args.dweight + row * args.d;
    const float* from = args.dx + r * args.d;
    int64_t j = begin;
    for (; j + kLanes <= end; j += kLanes) vstore(to + j, vfma(scale, vload(from + j), vload(to + j)));
    if (j < end) {
      const int n = static_cast<int>(end - j);
      vstore_n(to + j, vfma(scale, vload_n(from + j, n), vload_n(to + j, n)), n);
    }
  }
}

}  // namespace

void embedding_forward(const EmbeddingForward& args, Stream& stream) {
  const bool narrow = args.weight_type == DType::kBf16;
  if (args.x_type == DType::kBf16)
    return narrow ? forward_typed<uint16_t, uint16_t>(args, stream)
                  : forward_typed<uint16_t, float>(args, stream);
  narrow ? forward_typed<float, uint16_t>(args, stream) : forward_typed<float, float>(args, stream);
}

int64_t embedding_backward_workspace_bytes(const EmbeddingBackward&, int32_t) { return 0; }

void embedding_backward(const EmbeddingBackward& args, Stream& stream) {
  if (!args.accumulate) {
    parallel_ranges(stream, args.table_rows * args.d, kGrain, [&](int64_t begin, int64_t end) {
      __builtin_memset(args.dweight + begin, 0, static_cast<size_t>(end - begin) * sizeof(float));
    });
  }
  const int64_t columns = args.d < 512 ? 64 : 128;
  parallel_ranges(stream, args.d, columns,
                  [&](int64_t begin, int64_t end) { add_columns(args, begin, end); });
}

}  // namespace hawser::kernels::HWS_LEVEL
