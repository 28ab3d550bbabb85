// Embedding on every level, compared with plain loops; its backward gives the same bits for every number of
// workers.
#include "kernels/include/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "kernels/cpu/embedding_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace embedding_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;
using testing::TypedValues;

std::vector<int32_t> indices(int64_t rows, int64_t table_rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> result;
  for (int64_t r = 0; r < rows; ++r) result.push_back(static_cast<int32_t>(random() % table_rows));
  return result;
}

TEST(Embedding, ForwardMatchesTheLoops) {
  std::mt19937 random(21);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const int64_t d : {1, 7, 16, 65, 768}) {
      for (const bool with_positions : {false, true}) {
        EmbeddingForward args;
        args.rows = 90, args.d = d, args.weight_type = type, args.scale = with_positions ? 1.0f : 3.5f;
        const std::vector<int32_t> tokens = indices(args.rows, 50, 1), positions = indices(args.rows, 9, 2);
        TypedValues tokens_weight(type, 50 * d), positions_weight(type, 9 * d);
        tokens_weight.fill(random);
        positions_weight.fill(random);
        args.tokens = tokens.data(), args.positions = positions.data();
        args.tokens_weight = tokens_weight.data();
        args.positions_weight = with_positions ? positions_weight.data() : nullptr;
        std::vector<double> expected(static_cast<size_t>(args.rows * d));
        embedding_forward_reference(args, expected.data(), tokens_weight.values.data(),
                                    with_positions ? positions_weight.values.data() : nullptr);
        for (const KernelTable* table : testing::kernel_tables()) {
          GuardedBuffer<float> x(args.rows * d);
          SerialStream stream(2, TaskOrder::kDescending);
          args.x = x.data();
          table->embedding_forward(args, stream);
          EXPECT_TRUE(x.intact()) << table->name;
          for (int64_t i = 0; i < x.size(); ++i) {
            ASSERT_NEAR(expected[static_cast<size_t>(i)], x[i], 3e-7) << table->name << " d " << d;
          }
        }
      }
    }
  }
}

TEST(Embedding, BackwardMatchesTheLoopsAndIgnoresTheNumberOfWorkers) {
  std::mt19937 random(22);
  for (const bool accumulate : {false, true}) {
    for (const int64_t d : {1, 7, 64, 130, 600}) {
      EmbeddingBackward args;
      args.rows = 300, args.d = d, args.table_rows = 40, args.scale = 1.7f, args.accumulate = accumulate;
      const std::vector<int32_t> index = indices(args.rows, 23, 3);  // rows 23 and above stay unused
      TypedValues dx(DType::kF32, args.rows * d);
      dx.fill(random);
      args.index = index.data(), args.dx = static_cast<const float*>(dx.data());
      std::vector<double> expected(static_cast<size_t>(40 * d), 0.25);
      embedding_backward_reference(args, expected.data(), dx.values.data());
      for (const KernelTable* table : testing::kernel_tables()) {
        GuardedBuffer<float> one(40 * d), three(40 * d);
        for (GuardedBuffer<float>* out : {&one, &three}) {
          for (int64_t i = 0; i < out->size() && accumulate; ++i) (*out)[i] = 0.25f;
          SerialStream stream(out == &one ? 1 : 3,
                              out == &one ? TaskOrder::kAscending : TaskOrder::kShuffled);
          args.dweight = out->data();
          table->embedding_backward(args, stream);
          EXPECT_TRUE(out->intact()) << table->name;
        }
        EXPECT_TRUE(one.same_bits(three)) << table->name;
        for (int64_t i = 0; i < one.size(); ++i) {
          ASSERT_NEAR(expected[static_cast<size_t>(i)], one[i], 1e-5) << table->name << " d " << d;
        }
      }
    }
  }
}

TEST(EmbeddingReference, BackwardIsTheComplexStepDerivative) {
  using Complex = std::complex<double>;
  const int32_t tokens[] = {2, 0, 2};
  EmbeddingForward forward;
  forward.rows = 3, forward.d = 2, forward.tokens = tokens, forward.scale = 1.5f;
  EmbeddingBackward backward;
  backward.rows = 3, backward.d = 2, backward.table_rows = 3, backward.index = tokens, backward.scale = 1.5f;
  std::vector<Complex> dx(6), x(6), dweight(6);
  for (size_t i = 0; i < 6; ++i) dx[i] = std::cos(static_cast<double>(i));
  embedding_backward_reference(backward, dweight.data(), dx.data());
  for (size_t i = 0; i < 6; ++i) {
    std::vector<Complex> weight(6, 0.5);
    weight[i] += Complex(0, 1e-30);
    embedding_forward_reference<Complex>(forward, x.data(), weight.data(), nullptr);
    double derivative = 0;
    for (size_t j = 0; j < 6; ++j) derivative += x[j].imag() / 1e-30 * dx[j].real();
    EXPECT_NEAR(derivative, dweight[i].real(), 1e-14);
  }
}

}  // namespace embedding_test
}  // namespace hawser::kernels
