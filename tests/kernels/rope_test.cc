// Rotary embedding on every level, compared with fp64 loops; the inverse rotation is the backward.
#include "kernels/include/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "kernels/cpu/rope_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace rope_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;
using testing::TypedValues;

std::vector<float> angles(int64_t positions, int64_t half) {
  std::vector<float> table;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t j = 0; j < half; ++j) {
      const double angle =
          static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(half));
      table.push_back(static_cast<float>(std::cos(angle)));
      table.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

TEST(Rope, MatchesTheLoopsForEveryTypeSizeAndDirection) {
  std::mt19937 random(11);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const int64_t d : {2, 6, 32, 64, 80, 128, 260}) {
      const int64_t rows = 150, heads = 3, stride = heads * d + 5;
      const std::vector<float> table_of_angles = angles(40, d / 2);
      std::vector<int32_t> positions;
      for (int64_t r = 0; r < rows; ++r) positions.push_back(static_cast<int32_t>(r * 7 % 40));
      TypedValues x(type, rows * stride);
      x.fill(random);
      for (const bool inverse : {false, true}) {
        Rope args;
        args.cos_sin = table_of_angles.data(), args.positions = positions.data(), args.type = type;
        args.rows = rows, args.heads = heads, args.d = d, args.stride = stride, args.inverse = inverse;
        std::vector<double> expected = x.values;
        rope_reference(args, expected.data());
        for (const KernelTable* table : testing::kernel_tables()) {
          const int64_t bytes = rows * stride * dtype_bytes(type);
          GuardedBuffer<uint8_t> one(bytes), three(bytes);
          for (GuardedBuffer<uint8_t>* out : {&one, &three}) {
            std::memcpy(out->data(), x.data(), static_cast<size_t>(bytes));
            SerialStream stream(out == &one ? 1 : 3,
                                out == &one ? TaskOrder::kAscending : TaskOrder::kShuffled);
            args.x = out->data();
            table->rope(args, stream);
            EXPECT_TRUE(out->intact()) << table->name;
          }
          EXPECT_TRUE(one.same_bits(three)) << table->name;
          for (int64_t i = 0; i < rows * stride; ++i) {
            const double bound =
                type == DType::kF32 ? 3e-7 : 4e-3 * (0.01 + std::fabs(expected[static_cast<size_t>(i)]));
            ASSERT_NEAR(expected[static_cast<size_t>(i)], testing::typed_value(one.data(), type, i), bound)
                << table->name << " d " << d;
          }
        }
      }
    }
  }
}

TEST(RopeReference, InverseIsTheComplexStepBackward) {
  using Complex = std::complex<double>;
  const std::vector<float> table_of_angles = angles(3, 2);
  const int32_t positions[] = {2, 1};
  Rope args;
  args.cos_sin = table_of_angles.data(), args.positions = positions;
  args.rows = 2, args.heads = 1, args.d = 4, args.stride = 4;
  std::vector<Complex> x(8), dy(8);
  for (size_t i = 0; i < 8; ++i)
    x[i] = 0.1 * static_cast<double>(i), dy[i] = std::cos(static_cast<double>(i));
  std::vector<Complex> dx = dy;
  args.inverse = true;
  rope_reference(args, dx.data());
  args.inverse = false;
  for (size_t i = 0; i < 8; ++i) {
    std::vector<Complex> moved = x;
    moved[i] += Complex(0, 1e-30);
    rope_reference(args, moved.data());
    double derivative = 0;
    for (size_t j = 0; j < 8; ++j) derivative += moved[j].imag() / 1e-30 * dy[j].real();
    EXPECT_NEAR(derivative, dx[i].real(), 1e-14);
  }
}

}  // namespace rope_test
}  // namespace hawser::kernels
