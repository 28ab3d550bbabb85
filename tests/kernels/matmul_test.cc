// The matrix product on every level, compared with fp64 loops, over odd sizes, all layouts and types; and its
// promise that neither the number of workers, nor their order, nor m changes a bit.
#include "kernels/include/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <string>
#include <tuple>

#include "kernels/cpu/matmul_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace matmul_test {

using testing::from_bf16;
using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;
using testing::ThreadStream;
using testing::to_bf16;
using testing::TypedValues;

/// One product with its operands; stored rows are `gap` elements longer than necessary, and the gaps hold
/// NaN.
struct Product {
  Matmul args;
  TypedValues a, b, bias;
  std::vector<float> c_before;
  int64_t c_elements;

  Product(int64_t m, int64_t n, int64_t k, const std::string& types, bool ta, bool tb, bool accumulate,
          bool with_bias, int64_t gap, uint32_t seed)
      : a(type(types[0]), (ta ? k : m) * ((ta ? m : k) + gap)),
        b(type(types[1]), (tb ? n : k) * ((tb ? k : n) + gap)),
        bias(type(types[3]), n),
        c_elements(m * (n + gap)) {
    std::mt19937 random(seed);
    a.fill(random);
    b.fill(random);
    bias.fill(random);
    args.m = m, args.n = n, args.k = k;
    args.a_type = a.type(), args.b_type = b.type(), args.c_type = type(types[2]),
    args.bias_type = bias.type();
    args.a_transposed = ta, args.b_transposed = tb, args.accumulate = accumulate;
    args.lda = (ta ? m : k) + gap, args.ldb = (tb ? k : n) + gap, args.ldc = n + gap;
    args.a = a.data(), args.b = b.data();
    if (with_bias) args.bias = bias.data();
    poison_gaps(a, args.lda, ta ? m : k);
    poison_gaps(b, args.ldb, tb ? k : n);
    c_before.resize(static_cast<size_t>(c_elements), std::nanf(""));
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < m && accumulate; ++i) {
      for (int64_t j = 0; j < n; ++j) c_before[static_cast<size_t>(i * args.ldc + j)] = uniform(random);
    }
  }
  static DType type(char c) { return c == 'f' ? DType::kF32 : DType::kBf16; }
  static void poison_gaps(TypedValues& x, int64_t ld, int64_t used) {
    for (size_t i = 0; i < x.values.size(); ++i) {
      if (static_cast<int64_t>(i) % ld >= used) x.set(static_cast<int64_t>(i), std::nanf(""));
    }
  }

  /// Returns C as bytes of its type, gaps included, poisoned before. Checks the fences of C and of the
  /// workspace.
  std::vector<uint8_t> run(const KernelTable& table, Stream& stream) const {
    const int64_t element = dtype_bytes(args.c_type);
    GuardedBuffer<uint8_t> c(c_elements * element);
    if (args.accumulate) std::memcpy(c.data(), c_before.data(), static_cast<size_t>(c_elements * element));
    const int64_t bytes = table.matmul_workspace_bytes(args, stream.num_workers);
    GuardedBuffer<uint8_t> workspace(bytes);
    Matmul call = args;
    call.c = c.data();
    call.workspace = workspace.data();
    table.matmul(call, stream);
    EXPECT_TRUE(c.intact()) << describe(table);
    EXPECT_TRUE(workspace.intact()) << describe(table) << " wrote beyond its workspace of " << bytes;
    return {c.data(), c.data() + c_elements * element};
  }

  std::string describe(const KernelTable& table) const {
    return std::string(table.name) + " m " + std::to_string(args.m) + " n " + std::to_string(args.n) + " k " +
           std::to_string(args.k) + (args.a_transposed ? " T" : " N") + (args.b_transposed ? "T" : "N") +
           " types " + dtype_name(args.a_type) + dtype_name(args.b_type) + dtype_name(args.c_type) +
           (args.accumulate ? " accumulate" : "") + (args.bias != nullptr ? " bias" : "");
  }

  /// Returns element (i, j) in fp64, and the sum of magnitudes of its terms.
  std::pair<double, double> exact(int64_t i, int64_t j) const {
    const bool bf16 = args.a_type == DType::kBf16 || args.b_type == DType::kBf16;
    const auto value = [&](double x) { return bf16 ? from_bf16(to_bf16(static_cast<float>(x))) : x; };
    double sum = 0, magnitude = 0;
    for (int64_t p = 0; p < args.k; ++p) {
      const double term = value(a.values[static_cast<size_t>(a_index(args, i, p))]) *
                          value(b.values[static_cast<size_t>(b_index(args, p, j))]);
      sum += term;
      magnitude += std::fabs(term);
    }
    const double more[] = {args.bias != nullptr ? bias.values[static_cast<size_t>(j)] : 0.0,
                           args.accumulate ? c_before[static_cast<size_t>(i * args.ldc + j)] : 0.0};
    for (const double x : more) sum += x, magnitude += std::fabs(x);
    return {sum, magnitude};
  }

  void check(const KernelTable& table, const std::vector<uint8_t>& c, int64_t row_step,
             int64_t column_step) const {
    for (int64_t i = 0; i < args.m; i += row_step) {
      for (int64_t j = 0; j < args.n; j += column_step) {
        const auto [sum, magnitude] = exact(i, j);
        const double got = testing::typed_value(c.data(), args.c_type, i * args.ldc + j);
        double bound = 6e-8 * (4 + 2 * std::sqrt(static_cast<double>(args.k))) * magnitude + 1e-30;
        if (args.c_type == DType::kBf16) bound += std::fabs(sum) / 256;
        ASSERT_LE(std::fabs(got - sum), bound) << describe(table) << " at " << i << "," << j;
      }
    }
    for (int64_t i = 0; i < c_elements; ++i) {
      if (i % args.ldc >= args.n) {
        const double gap = testing::typed_value(c.data(), args.c_type, i);
        ASSERT_TRUE(std::isnan(gap)) << describe(table) << " wrote into the gap at " << i;
      }
    }
  }
};

// Each string has the types of a, b, c and bias.
const char* const kTypes[] = {"ffff", "bbbb", "bbff", "fbfb", "bfbf", "fffb", "ffbf"};

TEST(Matmul, MatchesFp64LoopsOverOddSizesLayoutsAndTypes) {
  const int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 12, 13, 16, 17, 31, 33, 48, 65, 97, 130};
  const int64_t kDepths[] = {0, 1, 2, 3, 15, 16, 17, 33, 100, 383, 384, 385, 401, 770, 1601};
  std::mt19937 random(1);
  const auto pick = [&](const auto& list) { return list[random() % std::size(list)]; };
  for (int i = 0; i < 240; ++i) {
    const int64_t m = pick(kSizes), n = pick(kSizes);
    int64_t k = pick(kDepths);
    while (m * n * k > 1000000) k = kDepths[random() % 10];
    const std::string types = kTypes[i % std::size(kTypes)];
    const bool accumulate = types[2] == 'f' && random() % 2 == 0;
    const Product product(m, n, k, types, random() % 2, random() % 2, accumulate, random() % 2, random() % 3,
                          random());
    for (const KernelTable* table : testing::kernel_tables()) {
      SerialStream stream(static_cast<int32_t>(1 + i % 5));
      product.check(*table, product.run(*table, stream), 1, 1);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Matmul, LargeProductsInChunksAndGroupsMatchAtSampledElements) {
  const struct {
    int64_t m, n, k;
    const char* types;
  } kCases[] = {{300, 8, 1700, "ffbf"},
                {1100, 40, 1700, "bbbb"},
                {300, 1100, 1700, "bbbb"},
                {70, 1100, 4000, "ffff"},
                {131, 130, 11800, "ffff"},
                {200, 131, 3100, "fbff"},
                {128, 140, 11800, "ffff"},
                {1030, 9, 4200, "bbbb"},
                // These have a long k, which is summed in segments: chunks of rows and columns; a bf16 C; one
                // row.
                {530, 1050, 12100, "ffff"},
                {70, 133, 24100, "fbbf"},
                {1, 1500, 24100, "fbff"}};
  int i = 0;
  for (const auto& c : kCases) {
    ++i;
    const Product product(c.m, c.n, c.k, c.types, i % 2, i / 2 % 2, false, true, 1, 5);
    for (const KernelTable* table : testing::kernel_tables()) {
      const bool slow = c.m * c.n * c.k > int64_t{1} << 32 && table != testing::kernel_tables().back();
      if (slow) continue;
      SerialStream one(1), many(64, TaskOrder::kShuffled);
      const std::vector<uint8_t> result = product.run(*table, one);
      product.check(*table, result, c.m / 9 + 1, c.n / 9 + 1);
      if (HasFatalFailure()) return;
      EXPECT_EQ(result, product.run(*table, many)) << product.describe(*table);
    }
  }
}

TEST(Matmul, WorkersAndTheirOrderChangeNoBit) {
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    const std::string types = kTypes[i % std::size(kTypes)];
    const Product product(1 + random() % 150, 1 + random() % 300, 1 + random() % 900, types, random() % 2,
                          random() % 2, types[2] == 'f' && random() % 2, random() % 2, 0, random());
    for (const KernelTable* table : testing::kernel_tables()) {
      SerialStream one(1), two(2, TaskOrder::kDescending), three(3, TaskOrder::kShuffled), many(20);
      ThreadStream threads(3);
      const std::vector<uint8_t> expected = product.run(*table, one);
      for (Stream* stream : {static_cast<Stream*>(&two), static_cast<Stream*>(&three),
                             static_cast<Stream*>(&many), static_cast<Stream*>(&threads)}) {
        EXPECT_EQ(expected, product.run(*table, *stream)) << product.describe(*table);
      }
    }
  }
}

/// The form of the product for few rows differs from that for many (61 x 150), or for a multiple of the rows
/// of a small op(b) (200 x 70); with a long k (24,000) it is the same.
TEST(Matmul, EachRowIsTheSameWhateverTheNumberOfRows) {
  for (const auto& [m, n, k, tb] : {std::tuple<int64_t, int64_t, int64_t, bool>{61, 150, 900, false},
                                    {61, 150, 900, true},
                                    {200, 70, 900, false},
                                    {200, 70, 900, true},
                                    {20, 40, 24000, false},
                                    {20, 40, 24000, true}}) {
    for (const char* types : {"ffff", "bbbb", "bbff"}) {
      const Product product(m, n, k, types, false, tb, false, true, 0, 3);
      for (const KernelTable* table : testing::kernel_tables()) {
        SerialStream stream(2);
        const std::vector<uint8_t> whole = product.run(*table, stream);
        const int64_t element = dtype_bytes(product.args.c_type), row_bytes = n * element;
        for (const int64_t rows : {1, 3, 4, 5, 13}) {
          Product part(m, n, k, types, false, tb, false, true, 0, 3);
          const int64_t first = m - rows;
          part.args.m = rows;
          part.c_elements = rows * n;
          part.args.a =
              static_cast<const char*>(part.args.a) + first * part.args.lda * dtype_bytes(part.args.a_type);
          const std::vector<uint8_t> got = part.run(*table, stream);
          EXPECT_EQ(0, std::memcmp(got.data(), whole.data() + first * row_bytes, got.size()))
              << product.describe(*table) << " rows " << rows;
        }
      }
    }
  }
}

TEST(Matmul, EmptyProductsTouchNothing) {
  for (const KernelTable* table : testing::kernel_tables()) {
    Matmul args;
    SerialStream stream(2);
    for (const auto& [m, n] : {std::pair{0, 5}, {5, 0}}) {
      args.m = m, args.n = n, args.k = 3;
      EXPECT_EQ(0, table->matmul_workspace_bytes(args, 2));
      table->matmul(args, stream);
    }
  }
}

TEST(Matmul, WorkspaceStaysBounded) {
  for (const KernelTable* table : testing::kernel_tables()) {
    Matmul args;
    args.m = 8192, args.n = 128256, args.k = 16384;
    EXPECT_LE(table->matmul_workspace_bytes(args, 2), 32 << 20) << table->name;
    args.m = 1;
    EXPECT_LE(table->matmul_workspace_bytes(args, 2), 8 << 20) << table->name;
  }
}

/// The workspace is planned for the largest batch of a step, and a smaller batch uses it, too.
TEST(Matmul, FewerRowsOrAShorterSumNeverNeedMoreWorkspace) {
  const int64_t kSizes[] = {1, 5, 12, 96, 191, 192, 256, 511, 516, 767, 768, 1025, 3072, 4096, 9728, 50257};
  for (const KernelTable* table : testing::kernel_tables()) {
    for (const int32_t workers : {1, 2, 7}) {
      for (const int64_t n : {5, 128, 768, 3072, 50257}) {
        for (const bool forward : {true, false}) {
          int64_t at_every_k[std::size(kSizes)] = {};
          for (const int64_t m : kSizes) {
            int64_t before = 0;
            for (size_t i = 0; i < std::size(kSizes); ++i) {
              Matmul x;
              x.m = m, x.n = n, x.k = kSizes[i];
              x.b_transposed = forward, x.a_transposed = !forward, x.round_to = DType::kBf16;
              const int64_t bytes = table->matmul_workspace_bytes(x, workers);
              ASSERT_GE(bytes, before) << table->name << " " << m << " x " << n << " x " << x.k;
              ASSERT_GE(bytes, at_every_k[i]) << table->name << " " << m << " x " << n << " x " << x.k;
              before = at_every_k[i] = bytes;
            }
          }
        }
      }
    }
  }
}

TEST(MatmulReference, BackwardIsTheComplexStepDerivative) {
  using Complex = std::complex<double>;
  const double h = 1e-30;
  for (int layout = 0; layout < 4; ++layout) {
    Matmul x;
    x.m = 3, x.n = 4, x.k = 5;
    x.a_transposed = layout % 2, x.b_transposed = layout / 2;
    x.lda = x.a_transposed ? x.m : x.k, x.ldb = x.b_transposed ? x.k : x.n, x.ldc = x.n;
    std::mt19937 random(2);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<Complex> inputs(15 + 20 + 4), c(12), dc(12), grads(39);
    for (Complex& v : inputs) v = uniform(random);
    for (Complex& v : dc) v = uniform(random);
    matmul_backward_reference(x, grads.data(), grads.data() + 15, grads.data() + 35, dc.data(), inputs.data(),
                              inputs.data() + 15);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<Complex> moved = inputs;
      moved[i] += Complex(0, h);
      matmul_reference(x, c.data(), moved.data(), moved.data() + 15, moved.data() + 35);
      double derivative = 0;
      for (size_t j = 0; j < c.size(); ++j) derivative += c[j].imag() / h * dc[j].real();
      EXPECT_NEAR(derivative, grads[i].real(), 1e-12 * (1 + std::fabs(derivative)));
    }
  }
}

}  // namespace matmul_test
}  // namespace hawser::kernels
