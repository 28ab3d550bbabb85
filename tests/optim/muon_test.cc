// Tests Muon against plain loops in fp64, against values of tests/golden/make_muon.py after 20 steps, and for
// equal bits however ranks hold a matrix.
#include "engine/optim/muon.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/nn/work_counter.h"
#include "engine/optim/optimizer.h"
#include "kernels/include/levels.h"
#include "tests/harness/muon_reference.h"
#include "tests/harness/test_stream.h"

namespace hawser {
namespace muon_test {

using optim::MatrixPiece;
using testing::SerialStream;
using testing::TaskOrder;

/// As in make_muon.py.
std::vector<float> values(int64_t count, uint32_t seed) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    out.push_back(static_cast<float>(seed / 2147483648.0 - 1));
  }
  return out;
}

std::vector<double> reference(const std::vector<float>& u, int64_t rows, int64_t columns) {
  return testing::muon_direction({u.begin(), u.end()}, rows, columns);
}

const kernels::KernelTable& best_kernels() { return kernels::cpu_kernels(kernels::best_cpu_level()); }

struct Shape {
  int64_t rows, columns;
};

std::vector<float> orthogonal(const std::vector<float>& u, const Shape& s, DType type,
                              std::vector<MatrixPiece> pieces, SerialStream& stream) {
  std::vector<float> to(u.size());
  ExactSum squares;
  optim::Orthogonal call;
  call.rows = s.rows, call.columns = s.columns, call.type = type;
  call.from = u.data(), call.pieces = pieces;
  call.to = to.data(), call.copies = pieces;
  call.squares = &squares;
  std::vector<char> memory(1 << 20);
  nn::Region workspace(memory.data(), static_cast<int64_t>(memory.size()));
  optim::orthogonalise(call, best_kernels(), &workspace, stream);
  return to;
}

std::vector<float> orthogonal(const std::vector<float>& u, const Shape& s, DType type) {
  SerialStream stream;
  return orthogonal(u, s, type, {{0, s.rows * s.columns, 0}}, stream);
}

double relative(const std::vector<float>& got, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

constexpr Shape kShapes[] = {{6, 10}, {10, 6}, {8, 8}, {2, 33}, {70, 3}, {48, 130}, {130, 48}};

TEST(Muon, AgreesWithPlainLoops) {
  for (const Shape& s : kShapes) {
    const std::vector<float> u = values(s.rows * s.columns, 5);
    const std::vector<double> expected = reference(u, s.rows, s.columns);
    EXPECT_LT(relative(orthogonal(u, s, DType::kF32), expected), 1e-4) << s.rows << " x " << s.columns;
    if (s.rows == s.columns) continue;  // rounding noise of a small singular value grows 485 times
    EXPECT_LT(relative(orthogonal(u, s, DType::kBf16), expected), 0.06) << s.rows << " x " << s.columns;
  }
}

/// Singular values end in a band around 1, so the mean of their squares is near 1.
TEST(Muon, IsNearlyOrthogonal) {
  for (const Shape& s : kShapes) {
    double squares = 0;
    for (const float x : orthogonal(values(s.rows * s.columns, 9), s, DType::kF32)) squares += x * x;
    const double mean = squares / static_cast<double>(std::min(s.rows, s.columns));
    EXPECT_GT(mean, 0.4) << s.rows << " x " << s.columns;
    EXPECT_LT(mean, 1.5) << s.rows << " x " << s.columns;
  }
}

/// Each step is 2 r^2 c for the product of the matrix with itself, 2 r^3 for its square, and 2 r^2 c for the
/// last, where r is the shorter side.
TEST(Muon, ProductsAreOnTheShorterSide) {
  for (const Shape& s : kShapes) {
    nn::WorkCounter counter(best_kernels(), 1);
    optim::Orthogonal call;
    call.rows = s.rows, call.columns = s.columns;
    nn::Region workspace = nn::Region::measuring();
    optim::orthogonalise(call, counter.table(), &workspace, counter.stream());
    const auto r = static_cast<double>(std::min(s.rows, s.columns));
    const auto c = static_cast<double>(std::max(s.rows, s.columns));
    EXPECT_EQ(counter.flops(), 5 * (4 * r * r * c + 2 * r * r * r)) << s.rows << " x " << s.columns;
  }
}

TEST(Muon, ZerosStayZero) {
  for (const DType type : {DType::kF32, DType::kBf16})
    for (const float x : orthogonal(std::vector<float>(60), {6, 10}, type)) EXPECT_EQ(x, 0.0f);
}

/// The pieces lie elsewhere in the buffer, and one has the odd bounds of a shard.
TEST(Muon, PiecesAndWorkersDoNotChangeABit) {
  for (const DType type : {DType::kF32, DType::kBf16})
    for (const Shape& s : {Shape{48, 130}, {130, 48}}) {
      const int64_t n = s.rows * s.columns;
      const std::vector<float> u = values(n, 7), whole = orthogonal(u, s, type);
      const std::vector<MatrixPiece> pieces = {{0, 1777, n - 1777}, {1777, 64, 0}, {1841, n - 1841, 64}};
      std::vector<float> moved(u.size());
      for (const MatrixPiece& p : pieces) std::copy_n(u.begin() + p.begin, p.n, moved.begin() + p.at);
      SerialStream stream(3, TaskOrder::kShuffled);
      const std::vector<float> parts = orthogonal(moved, s, type, pieces, stream);
      for (const MatrixPiece& p : pieces)
        EXPECT_TRUE(std::equal(parts.begin() + p.at, parts.begin() + p.at + p.n, whole.begin() + p.begin));
    }
}

/// Two windows divide the columns unequally. A shard of the second begins and ends inside a row.
TEST(Muon, WindowsDoNotChangeABit) {
  for (const DType type : {DType::kF32, DType::kBf16})
    for (const Shape& s : {Shape{48, 130}, {130, 48}, {6, 10}}) {
      const int64_t n = s.rows * s.columns, left = s.columns / 3, right = s.columns - left;
      const std::vector<float> u = values(n, 7), whole = orthogonal(u, s, type);
      const int64_t first = 2 * right + 1, second = 2 * right;  // elements of two shards
      const std::vector<MatrixPiece> pieces = {
          {0, s.rows * left, n - s.rows * left, 0, left},
          {0, first, 0, left, right},
          {first, second, first, left, right},
          {first + second, s.rows * right - first - second, first + second, left, right}};
      const auto each = [&](const auto& use) {
        for (const MatrixPiece& p : pieces)
          for (int64_t i = 0; i < p.n; ++i) {
            const int64_t e = p.begin + i;
            use(static_cast<size_t>(p.at + i),
                static_cast<size_t>(p.corner + e / p.width * s.columns + e % p.width));
          }
      };
      std::vector<float> moved(u.size(), NAN);
      each([&](size_t at, size_t element) { moved[at] = u[element]; });
      SerialStream stream(3, TaskOrder::kShuffled);
      const std::vector<float> parts = orthogonal(moved, s, type, pieces, stream);
      each([&](size_t at, size_t element) { EXPECT_EQ(parts[at], whole[element]); });
    }
}

/// 20 steps of a matrix by the kernels that the executor calls.
std::vector<float> train(const Shape& s, optim::MuonScale scale, DType type) {
  optim::OptimizerConfig config;
  config.muon_scale = scale;
  const int64_t n = s.rows * s.columns;
  std::vector<float> weight = values(n, 1), m(weight.size()), u(weight.size());
  const kernels::OptimizerScalars scalars{.lr = 0.02f};
  SerialStream stream;
  for (uint32_t step = 0; step < 20; ++step) {
    const std::vector<float> gradient = values(n, 100 + step);
    best_kernels().muon_momentum({m.data(), u.data(), gradient.data(), &scalars, n, 0.95f}, stream);
    const std::vector<float> direction = orthogonal(u, s, type);
    kernels::MuonUpdate update{weight.data(), nullptr, direction.data(), &scalars, n};
    update.scale = static_cast<float>(optim::muon_scale(config, s.rows, s.columns)),
    update.weight_decay = 0.1f;
    best_kernels().muon_update(update, stream);
  }
  return weight;
}

TEST(Muon, TwentyStepsAreThoseOfTheGoldenValues) {
  std::ifstream file(HAWSER_MUON_VALUES);
  const auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& c : cases) {
    const Shape s{c["rows"], c["columns"]};
    const auto scale = c["scale"] == "spectral" ? optim::MuonScale::kSpectral : optim::MuonScale::kMatchAdamW;
    const std::vector<float> w0 = values(s.rows * s.columns, 1);
    EXPECT_LT(relative(train(s, scale, DType::kF32), c["exact"]), 2e-5) << c["scale"] << s.rows;
    EXPECT_LT(relative(train(s, scale, DType::kBf16), c["torch"]), 3e-3) << c["scale"] << s.rows;
    EXPECT_GT(relative(w0, c["exact"]), 0.05);
  }
}

}  // namespace muon_test
}  // namespace hawser
