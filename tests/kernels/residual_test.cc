// Residual and dropout on every level, compared with plain loops: the mask is a pure function of sample,
// position and feature.
#include "kernels/include/residual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "kernels/cpu/residual_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace residual_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;
using testing::TypedValues;

constexpr uint64_t kSamples[] = {7, 1ull << 40, 0, 12345};

Dropout dropout(float p) { return {p, 0x123456789abcdefull, kSamples}; }

TEST(Residual, ForwardMatchesTheLoops) {
  std::mt19937 random(13);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const float p : {0.0f, 0.1f, 0.9f}) {
      for (const int64_t d : {1, 3, 4, 30, 64, 65, 200}) {
        for (const bool with_branch : {true, false}) {
          ResidualForward args;
          args.rows = 4 * 21, args.d = d, args.seq = 21, args.branch_type = type, args.dropout = dropout(p);
          TypedValues x(DType::kF32, args.rows * d), branch(type, args.rows * d);
          x.fill(random);
          branch.fill(random);
          args.branch = with_branch ? branch.data() : nullptr;
          std::vector<double> expected(x.values.size());
          residual_forward_reference(args, expected.data(), x.values.data(),
                                     with_branch ? branch.values.data() : nullptr);
          for (const KernelTable* table : testing::kernel_tables()) {
            GuardedBuffer<float> y(args.rows * d), in_place(args.rows * d);
            SerialStream one(1), three(3, TaskOrder::kShuffled);
            args.x = static_cast<const float*>(x.data());
            args.y = y.data();
            table->residual_forward(args, one);
            std::memcpy(in_place.data(), x.data(), x.values.size() * 4);
            args.x = args.y = in_place.data();
            table->residual_forward(args, three);
            EXPECT_TRUE(y.intact() && in_place.intact() && y.same_bits(in_place)) << table->name;
            for (int64_t i = 0; i < y.size(); ++i) {
              const double value = expected[static_cast<size_t>(i)];
              ASSERT_NEAR(value, y[i], 3e-7 * (1 + std::fabs(value)))
                  << table->name << " d " << d << " p " << p;
            }
          }
        }
      }
    }
  }
}

TEST(Residual, BackwardMatchesTheLoops) {
  std::mt19937 random(14);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const float p : {0.0f, 0.25f}) {
      for (const int64_t d : {5, 64, 131}) {
        ResidualBackward args;
        args.rows = 4 * 10, args.d = d, args.seq = 10, args.branch_type = type, args.dropout = dropout(p);
        TypedValues dy(DType::kF32, args.rows * d);
        dy.fill(random);
        args.dy = static_cast<const float*>(dy.data());
        std::vector<double> expected(dy.values.size());
        residual_backward_reference(args, expected.data(), dy.values.data());
        for (const KernelTable* table : testing::kernel_tables()) {
          GuardedBuffer<uint8_t> one(args.rows * d * dtype_bytes(type)), two(one.size());
          for (GuardedBuffer<uint8_t>* out : {&one, &two}) {
            SerialStream stream(out == &one ? 1 : 2, TaskOrder::kDescending);
            args.dbranch = out->data();
            table->residual_backward(args, stream);
            EXPECT_TRUE(out->intact()) << table->name;
          }
          EXPECT_TRUE(one.same_bits(two)) << table->name;
          for (int64_t i = 0; i < args.rows * d; ++i) {
            const double value = expected[static_cast<size_t>(i)];
            const double bound = std::fabs(value) * (type == DType::kF32 ? 3e-7 : 4e-3);
            ASSERT_NEAR(value, testing::typed_value(one.data(), type, i), bound) << table->name;
          }
        }
      }
    }
  }
}

TEST(Residual, DropsTheSameElementsWhateverTheBatchTheyCameIn) {
  for (const KernelTable* table : testing::kernel_tables()) {
    const int64_t d = 100, seq = 6;
    std::vector<float> x(static_cast<size_t>(3 * seq * d), 1.0f), y(x.size()),
        alone(static_cast<size_t>(seq * d));
    ResidualForward args;
    args.x = x.data(), args.y = y.data(), args.rows = 3 * seq, args.d = d, args.seq = seq,
    args.dropout = dropout(0.5f);
    SerialStream stream(2);
    table->residual_forward(args, stream);
    args.y = alone.data(), args.rows = seq, args.dropout.samples = kSamples + 1;
    table->residual_forward(args, stream);
    EXPECT_EQ(0, std::memcmp(alone.data(), y.data() + seq * d, alone.size() * 4)) << table->name;
    double kept = 0;
    for (const float value : y) kept += value > 0 ? 1 : 0;
    EXPECT_NEAR(0.5, kept / static_cast<double>(y.size()), 0.05) << table->name;
  }
}

TEST(Residual, MasksAreTheWordsOfTheContractBitForBit) {
  const int64_t d = 1000, seq = 40, rows = 4 * seq;
  const std::vector<float> x(static_cast<size_t>(rows * d), 1.0f);
  const float exactly_one_word =  // a word that equals p is kept
      philox_uniform(dropout_words(dropout(0.5f).key, kSamples[1], 3, 17).v[2]);
  for (const float p :
       {1.0f / 16777216.0f, 0.1f, 1.0f / 3.0f, 0.5f, exactly_one_word, 16777215.0f / 16777216.0f}) {
    ResidualForward args;
    args.x = x.data(), args.rows = rows, args.d = d, args.seq = seq, args.dropout = dropout(p);
    std::vector<float> expected(x.size());
    for (int64_t i = 0; i < rows * d; ++i) {
      const int64_t r = i / d, j = i % d;
      const PhiloxBlock words = dropout_words(args.dropout.key, kSamples[r / seq],
                                              static_cast<uint64_t>(r % seq), static_cast<uint64_t>(j / 4));
      const bool dropped = philox_uniform(words.v[j % 4]) < p;
      expected[static_cast<size_t>(i)] = dropped ? 0.0f : 1.0f / (1.0f - p);
    }
    for (const KernelTable* table : testing::kernel_tables()) {
      std::vector<float> y(x.size());
      SerialStream stream(2);
      args.y = y.data();
      table->residual_forward(args, stream);
      EXPECT_EQ(0, std::memcmp(expected.data(), y.data(), y.size() * 4)) << table->name << " p " << p;
    }
  }
}

TEST(ResidualReference, BackwardIsTheComplexStepDerivative) {
  using Complex = std::complex<double>;
  ResidualForward forward;
  forward.rows = 4, forward.d = 6, forward.seq = 2, forward.dropout = dropout(0.4f);
  ResidualBackward backward;
  backward.rows = 4, backward.d = 6, backward.seq = 2, backward.dropout = forward.dropout;
  std::vector<Complex> x(24), branch(24), y(24), dy(24), dbranch(24);
  for (size_t i = 0; i < 24; ++i) dy[i] = std::sin(static_cast<double>(i) + 1);
  residual_backward_reference(backward, dbranch.data(), dy.data());
  for (size_t i = 0; i < 24; ++i) {
    branch.assign(24, 0.5);
    branch[i] += Complex(0, 1e-30);
    residual_forward_reference(forward, y.data(), x.data(), branch.data());
    double derivative = 0;
    for (size_t j = 0; j < 24; ++j) derivative += y[j].imag() / 1e-30 * dy[j].real();
    EXPECT_NEAR(derivative, dbranch[i].real(), 1e-14);
  }
}

}  // namespace residual_test
}  // namespace hawser::kernels
