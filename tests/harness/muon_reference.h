// Muon's direction for one matrix by plain loops in fp64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace hawser::testing {

inline std::vector<double> plain_product(const std::vector<double>& a, const std::vector<double>& b,
                                         int64_t m, int64_t k, int64_t n) {
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        c[static_cast<size_t>(i * n + j)] +=
            a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
  return c;
}

inline std::vector<double> plain_transpose(const std::vector<double>& a, int64_t rows, int64_t columns) {
  std::vector<double> t(a.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      t[static_cast<size_t>(j * rows + i)] = a[static_cast<size_t>(i * columns + j)];
  return t;
}

/// Returns five Newton-Schulz steps of u / ||u||, a matrix of these rows and columns.
inline std::vector<double> muon_direction(const std::vector<double>& u, int64_t rows, int64_t columns) {
  std::vector<double> x = u;
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::max(std::sqrt(squares), 1e-7);
  if (rows > columns) x = plain_transpose(x, rows, columns);
  const int64_t r = std::min(rows, columns), c = std::max(rows, columns);
  for (int step = 0; step < 5; ++step) {
    const std::vector<double> a = plain_product(x, plain_transpose(x, r, c), r, c, r);
    const std::vector<double> square = plain_product(a, a, r, r, r);
    std::vector<double> b(a.size());
    for (size_t i = 0; i < a.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * square[i];
    const std::vector<double> more = plain_product(b, x, r, r, c);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + more[i];
  }
  return rows > columns ? plain_transpose(x, r, c) : x;
}

}  // namespace hawser::testing
