// Attention by the formula, in O(T^2) time and one row of scores at a time: the reference for the tiled
// kernel. T is double or std::complex<double>; pointers have the strides of AttentionShape in elements of T.
#pragma once

#include <vector>

#include "kernels/cpu/reference_number.h"
#include "kernels/include/attention.h"

namespace hawser::kernels {

/// The keys [begin, end) that query (b, t) sees.
struct VisibleKeys {
  int64_t begin, end;
};

inline VisibleKeys visible_keys(const AttentionShape& s, int64_t b, int64_t t) {
  const int64_t position = s.q_offset + t;
  VisibleKeys keys = {0, position + 1 < s.seq_k ? position + 1 : s.seq_k};
  if (s.kv_begin != nullptr && s.kv_begin[b * s.seq_q + t] > keys.begin)
    keys.begin = s.kv_begin[b * s.seq_q + t];
  if (s.window > 0 && position - s.window + 1 > keys.begin) keys.begin = position - s.window + 1;
  return keys;
}

/// 0 for a dropped probability, else 1 / (1 - p).
inline double attention_dropout_factor(const AttentionShape& s, int64_t b, int64_t head, int64_t t,
                                       int64_t key) {
  if (s.dropout.p == 0.0f) return 1.0;
  const uint64_t position = (static_cast<uint64_t>(s.first_head + head) << 32) + static_cast<uint64_t>(t);
  const PhiloxBlock words =
      dropout_words(s.dropout.key, s.dropout.samples[b], position, static_cast<uint64_t>(key / 4));
  return philox_uniform(words.v[key % 4]) < s.dropout.p ? 0.0
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

/// Computes o and lse of one query of one head; `scores` has space for seq_k.
template <class T>
void attention_forward_row(const AttentionShape& s, int64_t b, int64_t h, int64_t t, T* o, T* lse, const T* q,
                           const T* k, const T* v, std::vector<T>& scores) {
  const VisibleKeys keys = visible_keys(s, b, t);
  T max = attention_score(s, q, k + keys.begin * s.kv_stride);
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    scores[key] = attention_score(s, q, k + key * s.kv_stride);
    if (real_part(scores[key]) > real_part(max)) max = scores[key];
  }
  T sum = T(0);
  for (int64_t key = keys.begin; key < keys.end; ++key) sum += std::exp(scores[key] - max);
  *lse = max + std::log(sum);
  for (int64_t j = 0; j < s.head_dim; ++j) o[j] = T(0);
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    const T p = std::exp(scores[key] - *lse) * attention_dropout_factor(s, b, h, t, key);
    for (int64_t j = 0; j < s.head_dim; ++j) o[j] += p * v[key * s.kv_stride + j];
  }
}

template <class T>
void attention_forward_reference(const AttentionShape& s, T* o, T* lse, const T* q, const T* k, const T* v) {
  std::vector<T> scores(static_cast<size_t>(s.seq_k));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = b * s.kv_batch_rows * s.kv_stride + h / (s.heads / s.kv_heads) * s.head_dim;
      for (int64_t t = 0; t < s.seq_q; ++t) {
        const int64_t row = b * s.seq_q + t;
        attention_forward_row(s, b, h, t, o + row * s.o_stride + h * s.head_dim,
                              lse + (b * s.heads + h) * s.seq_q + t, q + row * s.q_stride + h * s.head_dim,
                              k + kv, v + kv, scores);
      }
    }
  }
}

/// Adds the gradients of one query of one head to dq, dk and dv. With p the probabilities and m the dropout
/// factors: dp = m * (dout . v), dscore = p * (dp - sum p dp), where the sum is dout . o.
template <class T>
void attention_backward_row(const AttentionShape& s, int64_t b, int64_t h, int64_t t, T* dq, T* dk, T* dv,
                            const T* dout, const T* o, T lse, const T* q, const T* k, const T* v) {
  const VisibleKeys keys = visible_keys(s, b, t);
  T delta = T(0);
  for (int64_t j = 0; j < s.head_dim; ++j) delta += dout[j] * o[j];
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    const int64_t row = key * s.kv_stride;
    const T score = attention_score(s, q, k + row);
    const T p = std::exp(score - lse);
    const double factor = attention_dropout_factor(s, b, h, t, key);
    T dp = T(0);
    for (int64_t j = 0; j < s.head_dim; ++j) dp += dout[j] * v[row + j];
    const T ratio = s.softcap > 0 ? score / static_cast<double>(s.softcap) : T(0);
    const T ds = p * (factor * dp - delta) * (T(1) - ratio * ratio) * static_cast<double>(s.scale);
    for (int64_t j = 0; j < s.head_dim; ++j) {
      dv[row + j] += p * factor * dout[j];
      dk[row + j] += ds * q[j];
      dq[j] += ds * k[row + j];
    }
  }
}

template <class T>
void attention_backward_reference(const AttentionShape& s, T* dq, T* dk, T* dv, const T* dout, const T* o,
                                  const T* lse, const T* q, const T* k, const T* v) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = 0; t < s.seq_q; ++t) {
      for (int64_t j = 0; j < s.heads * s.head_dim; ++j) dq[(b * s.seq_q + t) * s.q_stride + j] = T(0);
    }
    for (int64_t t = 0; t < s.seq_k; ++t) {
      const int64_t row = (b * s.kv_batch_rows + t) * s.kv_stride;
      for (int64_t j = 0; j < s.kv_heads * s.head_dim; ++j) dk[row + j] = dv[row + j] = T(0);
    }
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = b * s.kv_batch_rows * s.kv_stride + h / (s.heads / s.kv_heads) * s.head_dim;
      for (int64_t t = 0; t < s.seq_q; ++t) {
        const int64_t row = b * s.seq_q + t, at_q = row * s.q_stride + h * s.head_dim;
        const int64_t at_o = row * s.o_stride + h * s.head_dim;
        attention_backward_row(s, b, h, t, dq + at_q, dk + kv, dv + kv, dout + at_o, o + at_o,
                               lse[(b * s.heads + h) * s.seq_q + t], q + at_q, k + kv, v + kv);
      }
    }
  }
}

}  // namespace hawser::kernels
