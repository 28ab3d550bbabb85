// Reference for the matrix product and its gradients: plain loops over the number type T (double, float,
// std::complex<double>). Sizes, strides (in elements of T) and flags are read from the arguments; their
// pointers and types are not.
#pragma once

#include "kernels/include/matmul.h"

namespace hawser::kernels {

/// Index of element (i, p) of op(a) and of (p, j) of op(b).
inline int64_t a_index(const Matmul& x, int64_t i, int64_t p) {
  return x.a_transposed ? p * x.lda + i : i * x.lda + p;
}
inline int64_t b_index(const Matmul& x, int64_t p, int64_t j) {
  return x.b_transposed ? j * x.ldb + p : p * x.ldb + j;
}

/// bias may be null.
template <class T>
void matmul_reference(const Matmul& x, T* c, const T* a, const T* b, const T* bias) {
  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t j = 0; j < x.n; ++j) {
      T sum = T(0);
      for (int64_t p = 0; p < x.k; ++p) sum += a[a_index(x, i, p)] * b[b_index(x, p, j)];
      if (bias != nullptr) sum += bias[j];
      T& out = c[i * x.ldc + j];
      out = x.accumulate ? out + sum : sum;
    }
  }
}

/// op(a)' = dc · op(b)^T, op(b)' = op(a)^T · dc, bias' = column sums of dc; stored as a, b and bias are.
template <class T>
void matmul_backward_reference(const Matmul& x, T* da, T* db, T* dbias, const T* dc, const T* a, const T* b) {
  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t p = 0; p < x.k; ++p) da[a_index(x, i, p)] = T(0);
  }
  for (int64_t p = 0; p < x.k; ++p) {
    for (int64_t j = 0; j < x.n; ++j) db[b_index(x, p, j)] = T(0);
  }
  for (int64_t j = 0; j < x.n; ++j) dbias[j] = T(0);
  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t j = 0; j < x.n; ++j) {
      const T grad = dc[i * x.ldc + j];
      dbias[j] += grad;
      for (int64_t p = 0; p < x.k; ++p) {
        da[a_index(x, i, p)] += grad * b[b_index(x, p, j)];
        db[b_index(x, p, j)] += grad * a[a_index(x, i, p)];
      }
    }
  }
}

}  // namespace hawser::kernels
