// LayerNorm and RMSNorm. Forward: two passes for the statistics and one for the output, over a row that stays
// in cache. Backward: rows in blocks, whose size depends only on the number of rows; each block leaves its
// sums for dweight and dbias in the workspace, and a second pass adds them in the order of the blocks.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/residual_row.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kUnroll = 4;

/// Calls body(j, n) for vectors of n = kLanes elements, and once for the n < kLanes that remain. If n is a
/// literal kLanes, the partial loads become full ones.
template <class Whole, class Rest>
HWS_INLINE void for_vectors(int64_t d, const Whole& whole, const Rest& rest) {
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes) whole(j);
  if (j < d) rest(j, static_cast<int>(d - j));
}

/// Sum over j < d of term(vector at j, lanes in use). term must give 0 in unused lanes.
template <class Term>
HWS_INLINE float sum_vectors(int64_t d, const Term& term) {
  vf sum[kUnroll] = {vzero(), vzero(), vzero(), vzero()};
  int64_t j = 0;
  for (; j + kUnroll * kLanes <= d; j += kUnroll * kLanes) {
    for (int u = 0; u < kUnroll; ++u) sum[u] = vadd(sum[u], term(j + u * kLanes, kLanes));
  }
  for (; j + kLanes <= d; j += kLanes) sum[0] = vadd(sum[0], term(j, kLanes));
  if (j < d) sum[1] = vadd(sum[1], term(j, static_cast<int>(d - j)));
  return vsum(vadd(vadd(sum[0], sum[1]), vadd(sum[2], sum[3])));
}

template <class E>
HWS_INLINE vf load_lanes(const E* p, int lanes) {
  return lanes == kLanes ? load(p) : load_n(p, lanes);
}

template <class E>
HWS_INLINE void store_lanes(E* p, vf x, int lanes) {
  if (lanes == kLanes) {
    store(p, x);
  } else {
    store_n(p, x, lanes);
  }
}

HWS_INLINE vf zero_beyond(vf x, int lanes) {
  return lanes == kLanes ? x : vselect_lt(viota(), vset(static_cast<float>(lanes)), x, vzero());
}

/// The sum of terms of a row, added while another row is written. It has the bits of sum_vectors.
template <class X>
struct NextRow {
  const X* x;
  bool squares;  // terms are x^2, else x
  Group<kUnroll> sum = {vzero(), vzero(), vzero(), vzero()};

  template <class V>
  HWS_INLINE V term(V value) const {
    return squares ? vmul(value, value) : value;
  }
  HWS_INLINE void add(int64_t j, Group<kUnroll>) { sum = vadd(sum, term(load_group<kUnroll>(x + j))); }
  HWS_INLINE void add(int64_t j, vf) { sum.v[0] = vadd(sum.v[0], term(load(x + j))); }
  HWS_INLINE void add_rest(int64_t j, int n) { sum.v[1] = vadd(sum.v[1], term(load_n(x + j, n))); }
  float total() const { return vsum(vadd(vadd(sum.v[0], sum.v[1]), vadd(sum.v[2], sum.v[3]))); }
};
struct NoRow {
  template <class V>
  HWS_INLINE void add(int64_t, V) {}
  HWS_INLINE void add_rest(int64_t, int) {}
};

/// Computes y of one row with known statistics and also sums the next row, because memory would otherwise be
/// idle while this row, which is in the cache, is processed. The forward uses this function, and so does the
/// backward, to recompute the same bits.
template <class Args, class Y, class X, class W, class Next>
void write_output(const Args& a, int64_t r, int64_t g, Next& next) {
  const X* x = static_cast<const X*>(a.x) + r * a.x_stride + g * a.d;
  Y* y = static_cast<Y*>(a.y) + r * a.y_stride + g * a.d;
  const W* weight = static_cast<const W*>(a.weight);
  const W* bias = static_cast<const W*>(a.bias);
  const vf mu = vset(a.mean != nullptr ? a.mean[r * a.groups + g] : 0.0f),
           inv = vset(a.rstd[r * a.groups + g]), offset = vset(a.weight_offset);
  const auto output = [&](auto x_j, auto w_j, auto bias_j) {
    const auto scale = vadd(offset, w_j), xhat = vmul(vsub(x_j, mu), inv);
    return bias != nullptr ? vfma(xhat, scale, bias_j) : vmul(xhat, scale);
  };
  const W* const b = bias != nullptr ? bias : weight;  // not used without a bias
  int64_t j = 0;
  for (; j + kUnroll * kLanes <= a.d; j += kUnroll * kLanes) {
    next.add(j, Group<kUnroll>{});
    store(y + j,
          output(load_group<kUnroll>(x + j), load_group<kUnroll>(weight + j), load_group<kUnroll>(b + j)));
  }
  for (; j + kLanes <= a.d; j += kLanes) {
    next.add(j, vzero());
    store(y + j, output(load(x + j), load(weight + j), load(b + j)));
  }
  if (j == a.d) return;
  const int n = static_cast<int>(a.d - j);
  next.add_rest(j, n);
  store_n(y + j, output(load_n(x + j, n), load_n(weight + j, n), load_n(b + j, n)), n);
}

/// Computes the statistics of one row from the sum of its elements, or without a mean of their squares.
template <class X>
void set_statistics(const NormForward& a, const X* x, int64_t at, float sum) {
  const float inverse_d = 1.0f / static_cast<float>(a.d);
  float var = sum * inverse_d;
  if (a.mean != nullptr) {
    const float mean = sum * inverse_d;
    a.mean[at] = mean;
    const vf mu = vset(mean);
    var = sum_vectors(a.d,
                      [&](int64_t j, int n) {
                        const vf centred = zero_beyond(vsub(load_lanes(x + j, n), mu), n);
                        return vmul(centred, centred);
                      }) *
          inverse_d;
  }
  a.rstd[at] = 1.0f / __builtin_sqrtf(var + a.eps);
}

/// Normalises vectors [begin, end), numbered across rows and groups. Each is written while the next is read.
template <class Y, class X, class W>
void forward_vectors(const NormForward& a, int64_t begin, int64_t end) {
  const auto row_at = [&](int64_t at) {
    return static_cast<const X*>(a.x) + at / a.groups * a.x_stride + at % a.groups * a.d;
  };
  const bool squares = a.mean == nullptr;
  float sum = sum_vectors(a.d, [&](int64_t j, int n) {
    const vf x = load_lanes(row_at(begin) + j, n);
    return squares ? vmul(x, x) : x;
  });
  for (int64_t at = begin; at < end; ++at) {
    set_statistics(a, row_at(at), at, sum);
    if (at + 1 < end) {
      NextRow<X> next = {row_at(at + 1), squares};
      write_output<NormForward, Y, X, W>(a, at / a.groups, at % a.groups, next);
      sum = next.total();
    } else {
      NoRow next;
      write_output<NormForward, Y, X, W>(a, at / a.groups, at % a.groups, next);
    }
  }
}

template <class Y, class X, class W>
void forward(const NormForward& a, Stream& stream) {
  const int64_t width = a.groups * a.d, grain = width < 8192 ? 8192 / width : 1;
  const auto add_row = residual_row_of(a.residual);
  parallel_ranges(stream, a.rows, grain, [&](int64_t begin, int64_t end) {
    if (a.residual.y == nullptr) return forward_vectors<Y, X, W>(a, begin * a.groups, end * a.groups);
    RowMask mask;
    for (int64_t r = begin; r < end; ++r) {
      add_row(a.residual, r, mask);
      forward_vectors<Y, X, W>(a, r, r + 1);
    }
  });
}

template <class Y, class X>
void forward_weights(const NormForward& a, Stream& stream) {
  if constexpr (!__is_same(Y, Half) && !__is_same(X, Half)) {  // halves come with weights of f32
    if (a.weight_type == DType::kBf16) return forward<Y, X, uint16_t>(a, stream);
  }
  forward<Y, X, float>(a, stream);
}

/// Number of rows in one block of the backward's sums.
inline int64_t block_rows(int64_t rows) {
  const int64_t n = rows / 64;
  return n < 8 ? 8 : n > 64 ? 64 : n;
}

inline int64_t blocks_of(int64_t rows) { return (rows + block_rows(rows) - 1) / block_rows(rows); }
inline int64_t padded(int64_t d) { return (d + 15) / 16 * 16; }

template <class Y, class X, class W>
void write_row(const NormBackward& a, int64_t r, int64_t g) {
  NoRow next;
  write_output<NormBackward, Y, X, W>(a, r, g, next);
}

/// Returns the function that recomputes y; null if y is not wanted.
template <class X>
auto output_again(const NormBackward& a) -> void (*)(const NormBackward&, int64_t, int64_t) {
  using Args = NormBackward;
  using Output = void (*)(const Args&, int64_t, int64_t);
  if (a.y == nullptr) return nullptr;
  return with_element_beside<X>(a.y_type, [&](auto y) -> Output {
    using Y = decltype(y);
    if constexpr (!__is_same(Y, Half) && !__is_same(X, Half)) {
      if (a.weight_type == DType::kBf16) return write_row<Y, X, uint16_t>;
    }
    return write_row<Y, X, float>;
  });
}

/// Adds one row's terms to the block's sums and writes (or adds to) its dx. scale is weight_offset + weight.
template <class DX, class DY, class X>
void backward_vector(const NormBackward& a, const float* scale, float* dweight, float* dbias, int64_t r,
                     int64_t g) {
  const X* x = static_cast<const X*>(a.x) + r * a.x_stride + g * a.d;
  const DY* dy = static_cast<const DY*>(a.dy) + r * a.dy_stride + g * a.d;
  DX* dx = static_cast<DX*>(a.dx) + r * a.dx_stride + g * a.d;
  const vf mu = vset(a.mean != nullptr ? a.mean[r * a.groups + g] : 0.0f),
           inv = vset(a.rstd[r * a.groups + g]);
  // Prefetches what follows: dx of this row, then x and dy of the next.
  const int64_t x_next = a.groups > 1 ? a.d : a.x_stride, dy_next = a.groups > 1 ? a.d : a.dy_stride;
  vf sum = vzero(), dot = vzero();
  const auto gather = [&](int64_t j, int n) {
    __builtin_prefetch(dx + j, 1);
    __builtin_prefetch(x + x_next + j);
    const vf dyj = load_lanes(dy + j, n), dxhat = vmul(dyj, load_lanes(scale + j, n));
    const vf xhat = vmul(vsub(load_lanes(x + j, n), mu), inv);  // dy is 0 after the last lane
    sum = vadd(sum, dxhat);
    dot = vfma(dxhat, xhat, dot);
    store_lanes(dweight + j, vfma(dyj, xhat, load_lanes(dweight + j, n)), n);
    if (dbias != nullptr) store_lanes(dbias + j, vadd(dyj, load_lanes(dbias + j, n)), n);
  };
  for_vectors(
      a.d, [&](int64_t j) { gather(j, kLanes); }, gather);
  const float inverse_d = 1.0f / static_cast<float>(a.d);
  const vf mean_sum = vset(a.mean != nullptr ? vsum(sum) * inverse_d : 0.0f),
           mean_dot = vset(vsum(dot) * inverse_d);
  const bool add = a.dx_accumulate;
  const auto output = [&](int64_t j, int n) {
    __builtin_prefetch(dy + dy_next + j);
    const vf dxhat = vmul(load_lanes(dy + j, n), load_lanes(scale + j, n));
    const vf xhat = vmul(vsub(load_lanes(x + j, n), mu), inv);
    const vf grad = vmul(inv, vfnma(xhat, mean_dot, vsub(dxhat, mean_sum)));
    store_lanes(dx + j, add ? vadd(load_lanes(dx + j, n), grad) : grad, n);
  };
  for_vectors(
      a.d, [&](int64_t j) { output(j, kLanes); }, output);
}

/// Workspace: scale [d], then [blocks] of dweight [d] and dbias [d], each padded to whole cache lines.
template <class DX, class DY, class X>
void backward_blocks(const NormBackward& a, Stream& stream) {
  const int64_t rows_in_block = block_rows(a.rows), line = padded(a.d);
  const float* scale = static_cast<const float*>(a.workspace);
  float* partial = static_cast<float*>(a.workspace) + line;
  const auto again = output_again<X>(a);
  parallel(stream, blocks_of(a.rows), [&](int64_t block, int32_t) {
    float* dweight = partial + block * 2 * line;
    float* dbias = a.dbias != nullptr ? dweight + line : nullptr;
    for (int64_t j = 0; j < line; ++j) dweight[j] = 0;
    for (int64_t j = 0; j < line && dbias != nullptr; ++j) dbias[j] = 0;
    const int64_t end = (block + 1) * rows_in_block < a.rows ? (block + 1) * rows_in_block : a.rows;
    for (int64_t r = block * rows_in_block; r < end; ++r) {
      for (int64_t g = 0; g < a.groups; ++g) {
        if (again != nullptr) again(a, r, g);
        backward_vector<DX, DY, X>(a, scale, dweight, dbias, r, g);
      }
    }
  });
}

template <class DX>
void backward_gradients(const NormBackward& a, Stream& stream) {
  with_element_beside<DX>(a.dy_type, [&](auto dy) {
    using DY = decltype(dy);
    with_element_beside<typename NarrowOf<DX, DY>::Type>(
        a.x_type, [&](auto x) { backward_blocks<DX, DY, decltype(x)>(a, stream); });
  });
}

/// out[j] (+)= sum over blocks of partial[block][j], in the order of the blocks.
inline void add_blocks(float* out, const float* partial, int64_t blocks, int64_t between, int64_t j, int n,
                       bool add) {
  vf sum = vzero();
  for (int64_t block = 0; block < blocks; ++block)
    sum = vadd(sum, load_lanes(partial + block * between + j, n));
  store_lanes(out + j, add ? vadd(load_lanes(out + j, n), sum) : sum, n);
}

}  // namespace

int64_t norm_backward_workspace_bytes(const NormBackward& args, int32_t) {
  return padded(args.d) * (1 + 2 * blocks_of(args.rows)) * static_cast<int64_t>(sizeof(float));
}

void norm_forward(const NormForward& args, Stream& stream) {
  if (args.rows <= 0 || args.groups <= 0 || args.d <= 0) return;
  with_element(args.y_type, [&](auto y) {
    using Y = decltype(y);
    with_element_beside<Y>(args.x_type, [&](auto x) { forward_weights<Y, decltype(x)>(args, stream); });
  });
}

void norm_backward(const NormBackward& args, Stream& stream) {
  const NormBackward& a = args;
  if (a.d <= 0) return;
  float* scale = static_cast<float*>(a.workspace);
  for (int64_t j = 0; j < a.d; ++j) {
    const float w = a.weight_type == DType::kBf16 ? load_scalar(static_cast<const uint16_t*>(a.weight) + j)
                                                  : static_cast<const float*>(a.weight)[j];
    scale[j] = a.weight_offset + w;
  }
  with_element(a.dx_type, [&](auto dx) { backward_gradients<decltype(dx)>(a, stream); });
  const float* partial = scale + padded(a.d);
  const int64_t blocks = blocks_of(a.rows), between = 2 * padded(a.d);
  parallel_ranges(stream, a.d, 16 * kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += kLanes) {
      const int n = static_cast<int>(end - j < kLanes ? end - j : kLanes);
      add_blocks(a.dweight, partial, blocks, between, j, n, a.weights_accumulate);
      if (a.dbias != nullptr)
        add_blocks(a.dbias, partial + padded(a.d), blocks, between, j, n, a.weights_accumulate);
    }
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
