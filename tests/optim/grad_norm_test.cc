// Tests the gradient norm: it is bit-identical for every way to shard a range.
#include "engine/optim/grad_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/mesh/flat_shard.h"
#include "kernels/include/levels.h"
#include "tests/harness/test_stream.h"

namespace hawser {
namespace grad_norm_test {

using testing::SerialStream;
using testing::TaskOrder;

std::vector<float> random_gradients(int64_t n) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0.0f, 1e-3f);
  std::vector<float> gradients(static_cast<size_t>(n));
  for (float& g : gradients) g = normal(random);
  return gradients;
}

const kernels::KernelTable& best_kernels() { return kernels::cpu_kernels(kernels::best_cpu_level()); }

TEST(GradNorm, EveryNumberOfShardsGivesTheSameBits) {
  std::vector<ExactSum> workspace(kernels::kNormTasks);
  for (const int64_t n : {5, 64, 1000, 12345, 100000}) {
    const std::vector<float> gradients = random_gradients(n);
    ExactSum whole;
    SerialStream one;
    optim::add_squares(&whole, gradients.data(), DType::kF32, n, workspace.data(), best_kernels(), one);
    for (const int64_t parts : {2, 3, 4, 7, 64}) {
      ExactSum joined;
      for (int64_t rank = parts - 1; rank >= 0; --rank) {
        const mesh::FlatRange range = mesh::shard_range(n, parts, rank);
        ExactSum mine;
        SerialStream stream(3, TaskOrder::kShuffled);
        optim::add_squares(&mine, gradients.data() + range.begin, DType::kF32, range.size(), workspace.data(),
                           best_kernels(), stream);
        mine.normalise();
        // An integer all-reduce adds the words like this.
        for (int i = 0; i < ExactSum::kWords; ++i) joined.words[i] += mine.words[i];
      }
      EXPECT_EQ(optim::grad_norm(joined), optim::grad_norm(whole)) << n << " in " << parts;
    }
  }
}

TEST(GradNorm, IsTheRootOfTheSumOfSquaresOfAllRuns) {
  const std::vector<float> gradients = random_gradients(5000);
  double expected = 0;
  for (const float g : gradients) expected += static_cast<double>(g) * g;
  std::vector<ExactSum> workspace(kernels::kNormTasks);
  SerialStream stream;
  ExactSum sum;
  for (int64_t begin = 0; begin < 5000; begin += 1250) {
    optim::add_squares(&sum, gradients.data() + begin, DType::kF32, 1250, workspace.data(), best_kernels(),
                       stream);
  }
  EXPECT_NEAR(optim::grad_norm(sum), std::sqrt(expected), 1e-13 * std::sqrt(expected));
  EXPECT_EQ(optim::grad_norm(ExactSum()), 0.0);
}

TEST(GradNorm, IsNotFiniteWhereAGradientIsNot) {
  std::vector<ExactSum> workspace(kernels::kNormTasks);
  std::vector<float> gradients = random_gradients(1000);
  SerialStream stream;
  ExactSum sum;
  gradients[500] = -std::numeric_limits<float>::infinity();
  optim::add_squares(&sum, gradients.data(), DType::kF32, 1000, workspace.data(), best_kernels(), stream);
  EXPECT_EQ(optim::grad_norm(sum), std::numeric_limits<double>::infinity());
  gradients[1] = std::numeric_limits<float>::quiet_NaN();
  optim::add_squares(&sum, gradients.data(), DType::kF32, 1000, workspace.data(), best_kernels(), stream);
  EXPECT_TRUE(std::isnan(optim::grad_norm(sum)));
}

}  // namespace grad_norm_test
}  // namespace hawser
