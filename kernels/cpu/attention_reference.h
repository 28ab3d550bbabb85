// Reference for attention: the formula, in O(T^2) time and one row of scores at a time. T is double or
// std::complex<double>; pointers have the strides of AttentionShape in elements of T. Queries and keys may be
// parts of longer rows.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/reference_number.h"
#include "kernels/include/attention.h"

namespace hawser::kernels {

/// The keys [begin, end) that query (b, t) sees; begin == end if none.
struct VisibleKeys {
  int64_t begin, end;
};

inline VisibleKeys visible_keys(const AttentionShape& s, int64_t b, int64_t t) {
  const int64_t column = s.q_offset + t;
  int64_t first = s.k_offset;  // a column
  if (s.kv_begin != nullptr) first = std::max<int64_t>(first, s.kv_begin[b * s.q_rows() + t]);
  if (s.window > 0) first = std::max(first, column - s.window + 1);
  const int64_t end = std::clamp<int64_t>(column + 1 - s.k_offset, 0, s.seq_k);
  return {std::min(first - s.k_offset, end), end};
}

/// Returns 0 for a dropped probability, else 1 / (1 - p).
inline double attention_dropout_factor(const AttentionShape& s, int64_t b, int64_t head, int64_t t,
                                       int64_t key) {
  if (s.dropout.p == 0.0f) return 1.0;
  const auto position =
      (static_cast<uint64_t>(s.first_head + head) << 32) + static_cast<uint64_t>(s.q_offset + t);
  const auto column = static_cast<uint64_t>(s.k_offset + key);
  const PhiloxBlock words = dropout_words(s.dropout.key, s.dropout.samples[b], position, column / 4);
  return philox_uniform(words.v[column % 4]) < s.dropout.p ? 0.0
                                                           : 1.0 / (1.0 - static_cast<double>(s.dropout.p));
}

template <class T>
T attention_score(const AttentionShape& s, const T* q, const T* k) {
  T dot = T(0);
  for (int64_t j = 0; j < s.head_dim; ++j) dot += q[j] * k[j];
  const T score = static_cast<double>(s.scale) * dot;
  const double cap = s.softcap;
  return cap > 0 ? cap * std::tanh(score / cap) : score;
}

/// Merges the result over other keys, o_here and lse_here, into o and lse; either may have seen no keys.
template <class T>
void merge_attention_row(int64_t value_dim, T* o, T* lse, const T* o_here, T lse_here) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  if (real_part(lse_here) == kNone) return;
  if (real_part(*lse) == kNone) {
    std::copy_n(o_here, value_dim, o);
    *lse = lse_here;
    return;
  }
  const T max = real_part(*lse) > real_part(lse_here) ? *lse : lse_here;
  const T mine = std::exp(*lse - max), here = std::exp(lse_here - max);
  for (int64_t j = 0; j < value_dim; ++j) o[j] = (mine * o[j] + here * o_here[j]) / (mine + here);
  *lse = max + std::log(mine + here);
}

/// Computes o and lse of one query of one head; `scores` has space for seq_k.
template <class T>
void attention_forward_row(const AttentionShape& s, int64_t b, int64_t h, int64_t t, T* o, T* lse, const T* q,
                           const T* k, const T* v, std::vector<T>& scores) {
  const VisibleKeys keys = visible_keys(s, b, t);
  std::fill_n(o, s.v_dim(), T(0));
  *lse = T(-std::numeric_limits<double>::infinity());
  if (keys.begin == keys.end) return;
  T max = attention_score(s, q, k + keys.begin * s.kv_stride);
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    scores[key] = attention_score(s, q, k + key * s.kv_stride);
    if (real_part(scores[key]) > real_part(max)) max = scores[key];
  }
  T sum = T(0);
  for (int64_t key = keys.begin; key < keys.end; ++key) sum += std::exp(scores[key] - max);
  *lse = max + std::log(sum);
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    const T p = std::exp(scores[key] - *lse) * attention_dropout_factor(s, b, h, t, key);
    for (int64_t j = 0; j < s.v_dim(); ++j) o[j] += p * v[key * s.kv_stride + j];
  }
}

/// The reference of AttentionShape::largest: raises largest[h] of each head of the call.
inline void largest_scores_reference(const AttentionShape& s, double* largest, const double* q,
                                     const double* k) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t t = 0; t < s.seq_q; ++t) {
        const double* const row = q + (b * s.q_rows() + t) * s.q_stride + h * s.head_dim;
        const double* const keys =
            k + b * s.kv_batch_rows * s.kv_stride + h / (s.heads / s.kv_heads) * s.head_dim;
        const VisibleKeys seen = visible_keys(s, b, t);
        for (int64_t key = seen.begin; key < seen.end; ++key)
          largest[h] = std::max(largest[h], attention_score(s, row, keys + key * s.kv_stride));
      }
}

/// The reference of AttentionForward. `merge` has its meaning there.
template <class T>
void attention_forward_reference(const AttentionShape& s, T* o, T* lse, const T* q, const T* k, const T* v,
                                 bool merge = false) {
  std::vector<T> scores(static_cast<size_t>(s.seq_k)), here(static_cast<size_t>(s.v_dim()));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv_row = b * s.kv_batch_rows * s.kv_stride, kv = h / (s.heads / s.kv_heads);
      for (int64_t t = 0; t < s.seq_q; ++t) {
        const int64_t row = b * s.q_rows() + t, at_q = row * s.q_stride + h * s.head_dim;
        T lse_here;
        attention_forward_row(s, b, h, t, here.data(), &lse_here, q + at_q, k + kv_row + kv * s.head_dim,
                              v + kv_row + kv * s.v_dim(), scores);
        T* const to = o + row * s.o_stride + h * s.v_dim();
        T* const to_lse = lse + (b * s.heads + h) * s.q_rows() + t;
        if (!merge) {
          std::copy(here.begin(), here.end(), to);
          *to_lse = lse_here;
        } else {
          merge_attention_row(s.v_dim(), to, to_lse, here.data(), lse_here);
        }
      }
    }
  }
}

/// Adds the gradients of one query of one head to dq, dk and dv; rows of the latter are dkv_stride apart.
/// With p the probabilities and m the dropout factors: dp = m * (dout . v), dscore = p * (dp - sum p dp),
/// where the sum over all keys is dout . o.
template <class T>
void attention_backward_row(const AttentionShape& s, int64_t b, int64_t h, int64_t t, T* dq, T* dk, T* dv,
                            int64_t dkv_stride, const T* dout, const T* o, T lse, const T* q, const T* k,
                            const T* v) {
  const VisibleKeys keys = visible_keys(s, b, t);
  T delta = T(0);
  for (int64_t j = 0; j < s.v_dim(); ++j) delta += dout[j] * o[j];
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    const int64_t row = key * s.kv_stride, to = key * dkv_stride;
    const T score = attention_score(s, q, k + row);
    const T p = std::exp(score - lse);
    const double factor = attention_dropout_factor(s, b, h, t, key);
    T dp = T(0);
    for (int64_t j = 0; j < s.v_dim(); ++j) dp += dout[j] * v[row + j];
    const T ratio = s.softcap > 0 ? score / static_cast<double>(s.softcap) : T(0);
    const T ds = p * (factor * dp - delta) * (T(1) - ratio * ratio) * static_cast<double>(s.scale);
    for (int64_t j = 0; j < s.v_dim(); ++j) dv[to + j] += p * factor * dout[j];
    for (int64_t j = 0; j < s.head_dim; ++j) {
      dk[to + j] += ds * q[j];
      dq[j] += ds * k[row + j];
    }
  }
}

/// The options of AttentionBackward other than the shape and the operands.
struct BackwardOptions {
  bool accumulate_q = false, accumulate_kv = false;
  int64_t dq_stride = 0, dkv_stride = 0;
};

/// Clears the gradients that do not accumulate.
template <class T>
void clear_gradients(const AttentionShape& s, T* dq, T* dk, T* dv, int64_t dq_stride, int64_t dkv_stride,
                     const BackwardOptions& options) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = 0; t < s.seq_q && !options.accumulate_q; ++t)
      std::fill_n(dq + (b * s.q_rows() + t) * dq_stride, s.heads * s.head_dim, T(0));
    for (int64_t key = 0; key < s.seq_k && !options.accumulate_kv; ++key) {
      const int64_t row = (b * s.kv_batch_rows + key) * dkv_stride;
      std::fill_n(dk + row, s.kv_heads * s.head_dim, T(0));
      std::fill_n(dv + row, s.kv_heads * s.v_dim(), T(0));
    }
  }
}

template <class T>
void attention_backward_reference(const AttentionShape& s, T* dq, T* dk, T* dv, const T* dout, const T* o,
                                  const T* lse, const T* q, const T* k, const T* v,
                                  const BackwardOptions& options = {}) {
  const int64_t dq_stride = options.dq_stride > 0 ? options.dq_stride : s.q_stride;
  const int64_t dkv_stride = options.dkv_stride > 0 ? options.dkv_stride : s.kv_stride;
  clear_gradients(s, dq, dk, dv, dq_stride, dkv_stride, options);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t group = h / (s.heads / s.kv_heads), at_k = group * s.head_dim, at_v = group * s.v_dim();
      const int64_t kv = b * s.kv_batch_rows * s.kv_stride, dkv = b * s.kv_batch_rows * dkv_stride;
      for (int64_t t = 0; t < s.seq_q; ++t) {
        const int64_t row = b * s.q_rows() + t, at_head = h * s.head_dim;
        const int64_t at_q = row * s.q_stride + at_head, at_o = row * s.o_stride + h * s.v_dim();
        attention_backward_row(s, b, h, t, dq + row * dq_stride + at_head, dk + dkv + at_k, dv + dkv + at_v,
                               dkv_stride, dout + at_o, o + at_o, lse[(b * s.heads + h) * s.q_rows() + t],
                               q + at_q, k + kv + at_k, v + kv + at_v);
      }
    }
  }
}

}  // namespace hawser::kernels
