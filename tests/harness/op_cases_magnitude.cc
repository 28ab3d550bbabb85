// Rows of the op-case table for magnitudes of an adapter's rows.
#include <cmath>
#include <initializer_list>
#include <set>

#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_magnitude {

using kernels::kSquareLanes;
using kernels::Magnitudes;

double f32(double x) { return static_cast<double>(static_cast<float>(x)); }

/// The results must be equal to the bit, because the contract defines the order of the sums.
OpCase squares_case(int64_t rows, int64_t n, DType type) {
  OpCase c = {"row_squares",
              std::to_string(rows) + "x" + std::to_string(n) + "/" + type_word(type),
              {},
              nullptr,
              nullptr};
  c.operands = {input("w", type, rows * n, 1), input("ba", DType::kF32, rows * n, 2),
                output("squares", DType::kF32, rows, 0)};
  c.fast = [=](const FastCall& call) {
    call.table.row_squares({call.as<float>(2), call.data[0], call.as<float>(1), type, 0.3f, rows, n},
                           call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> sums(kSquareLanes);
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(r * n + i);
        const double v = f32(x[0][at] + f32(static_cast<double>(0.3f) * x[1][at]));
        sums[static_cast<size_t>(i % kSquareLanes)] += v * v;
      }
      for (size_t half = kSquareLanes / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
      x[2][static_cast<size_t>(r)] = f32(sums[0]);
    }
  };
  return c;
}

/// A problem of columns: the first has the norm 0, the second a factor of 1.
struct Columns {
  int64_t rows, n, gap;
  DType type, m_type;

  int64_t stride() const { return n + gap; }
  int64_t elements() const { return (rows - 1) * stride() + n; }
  std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(n) + "/" + type_word(type) + "/m_" + type_word(m_type);
  }
  Operand squares() const {
    Operand squares = input("squares", DType::kF32, n, 3);
    for (double& square : squares.value) square = f32(square * square + 0.1);
    squares.value[0] = 0;
    if (n > 1) squares.value[1] = 4;
    return squares;
  }
  Operand magnitudes() const {
    Operand m = input("m", m_type, n, 4);
    if (n > 1) m.value[1] = 2;
    return m;
  }
  double norm(const std::vector<double>& squares, int64_t column) const {
    return rounded(f32(std::sqrt(squares[static_cast<size_t>(column)])), m_type);
  }
};

OpCase scale_case(const Columns& s, DType y_type, bool bias) {
  OpCase c = {
      "scale_columns", s.name() + "_to_" + type_word(y_type) + (bias ? "/bias" : ""), {}, nullptr, nullptr};
  c.operands = {input("x", s.type, s.elements(), 1), s.magnitudes(), s.squares(),
                input("bias", DType::kF32, s.n, 5), output("y", y_type, s.elements())};
  c.fast = [=](const FastCall& call) {
    const Magnitudes by{call.data[1], s.m_type, call.as<float>(2)};
    call.table.scale_columns({call.data[4], call.data[0], y_type, s.type, by,
                              bias ? call.as<float>(3) : nullptr, s.rows, s.n, s.stride(), s.stride()},
                             call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (int64_t j = 0; j < s.n; ++j) {
      const double norm = s.norm(x[2], j), factor = norm == 0 ? 1 : x[1][static_cast<size_t>(j)] / norm;
      const double constant = bias ? (1 - factor) * x[3][static_cast<size_t>(j)] : 0;
      for (int64_t r = 0; r < s.rows; ++r) {
        const auto at = static_cast<size_t>(r * s.stride() + j);
        x[4][at] = factor * x[0][at] + constant;
      }
    }
  };
  return c;
}

OpCase dot_case(const Columns& s, bool accumulate) {
  OpCase c = {"column_dot", s.name() + (accumulate ? "/accumulate" : ""), {}, nullptr, nullptr};
  c.operands = {input("dy", s.type, s.elements(), 1), input("z", DType::kF32, s.elements(), 2), s.squares(),
                accumulate ? in_out("dm", DType::kF32, s.n, 6) : output("dm", DType::kF32, s.n)};
  c.fast = [=](const FastCall& call) {
    const Magnitudes by{nullptr, s.m_type, call.as<float>(2)};
    call.table.column_dot({call.as<float>(3), call.data[0], s.type, call.as<float>(1), by, s.rows, s.n,
                           s.stride(), s.stride(), accumulate},
                          call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < s.rows; ++r) {
        const auto at = static_cast<size_t>(r * s.stride() + j);
        sum += x[0][at] * x[1][at];
      }
      const double norm = s.norm(x[2], j), own = norm == 0 ? 0 : sum / norm;
      double& dm = x[3][static_cast<size_t>(j)];
      dm = accumulate ? dm + own : own;
    }
  };
  return c;
}

/// True if these types are f32 and at most one other, as in every call of the engine.
bool one_narrow_type(std::initializer_list<DType> types) {
  std::set<DType> narrow(types);
  narrow.erase(DType::kF32);
  return narrow.size() < 2;
}

}  // namespace op_cases_magnitude

void add_magnitude_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_magnitude;
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const auto& [rows, n] : {std::pair{1, 1}, {3, 31}, {5, 64}, {40, 515}})
      cases.push_back(squares_case(rows, n, type));
    for (const DType m_type : {DType::kF32, DType::kBf16, DType::kF16}) {
      for (const Columns& s : {Columns{1, 1, 0, type, m_type}, Columns{5, 7, 3, type, m_type},
                               Columns{300, 64, 16, type, m_type}, Columns{33, 515, 0, type, m_type}}) {
        for (const DType y_type : {DType::kF32, DType::kBf16, DType::kF16})
          for (const bool bias : {false, true})
            if (one_narrow_type({type, m_type, y_type}) && (type == DType::kF32 || y_type == type))
              cases.push_back(scale_case(s, y_type, bias));
        for (const bool accumulate : {false, true}) cases.push_back(dot_case(s, accumulate));
      }
    }
  }
}

}  // namespace hawser::testing
