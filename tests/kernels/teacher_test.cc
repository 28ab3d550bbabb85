// The cross entropy with a teacher (kernels::Teacher), in complete rows and in rows that ranks divide:
// losses and gradients by their definition, and limiting cases in which a simpler loss gives the same.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/cross_entropy_reference.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace teacher_test {

constexpr float kScale = 0.25f;

struct Problem {
  int64_t rows, vocab, top;
  float temperature = 1, weight = 1, softcap = 0;
  bool loss_weights = false;
  float spread = 3;
};

/// A problem with its arrays. In every second row the target is one of the teacher's ids; every fifth is
/// masked.
struct Input {
  Problem p;
  std::vector<float> logits, logprobs, weights;
  std::vector<int32_t> targets, ids;

  explicit Input(const Problem& problem) : p(problem) {
    std::mt19937 random(static_cast<uint32_t>(p.vocab + 7 * p.top));
    std::normal_distribution<float> normal(0.0f, p.spread);
    for (int64_t i = 0; i < p.rows * p.vocab; ++i) logits.push_back(normal(random));
    for (int64_t r = 0; r < p.rows; ++r) {
      const auto first = static_cast<int64_t>(random() % static_cast<uint32_t>(p.vocab));
      for (int64_t i = 0; i < p.top; ++i) {
        ids.push_back(static_cast<int32_t>((first + i * (p.vocab / p.top)) % p.vocab));
        logprobs.push_back(-std::abs(normal(random)));
      }
      const int64_t other = (first + 1) % p.vocab;
      targets.push_back(r % 5 == 4 ? -100 : r % 2 == 0 ? ids.back() : static_cast<int32_t>(other));
      weights.push_back(0.5f * static_cast<float>(r % 4));
    }
  }
  CrossEntropy args(bool backward) const {
    CrossEntropy a;
    a.targets = targets.data(), a.rows = p.rows, a.vocab = p.vocab, a.stride = p.vocab;
    a.softcap = p.softcap, a.backward = backward, a.grad_scale = &kScale;
    if (p.loss_weights) a.weights = weights.data();
    a.teacher = {ids.data(), logprobs.data(), p.top, p.temperature, p.weight};
    return a;
  }
};

struct Result {
  std::vector<float> losses, logits;
};

Result whole(const KernelTable& table, const Input& in, bool backward, Stream& stream) {
  Result r = {std::vector<float>(static_cast<size_t>(in.p.rows), NAN), in.logits};
  CrossEntropy a = in.args(backward);
  a.losses = r.losses.data(), a.logits = r.logits.data();
  table.cross_entropy(a, stream);
  return r;
}

/// Ranks divide the vocabulary; one of them has no part of it.
Result divided(const KernelTable& table, const Input& in, bool backward, Stream& stream) {
  Result r = {std::vector<float>(static_cast<size_t>(in.p.rows), NAN), in.logits};
  const std::vector<int64_t> bounds = {0, in.p.vocab / 3, in.p.vocab / 3, in.p.vocab - 1, in.p.vocab};
  const int64_t ranks = static_cast<int64_t>(bounds.size()) - 1, of_rank = in.p.rows * kTeacherRowStatistics;
  std::vector<float> statistics(static_cast<size_t>(ranks * of_rank), NAN);
  const auto own = [&](int64_t rank) {
    CrossEntropy a = in.args(backward);
    a.losses = r.losses.data(), a.logits = r.logits.data() + bounds[static_cast<size_t>(rank)];
    a.vocab = bounds[static_cast<size_t>(rank) + 1] - bounds[static_cast<size_t>(rank)];
    return a;
  };
  for (int64_t i = 0; i < ranks; ++i)
    table.cross_entropy_statistics({own(i), bounds[static_cast<size_t>(i)], statistics.data() + i * of_rank},
                                   stream);
  for (int64_t i = 0; i < ranks; ++i)
    table.cross_entropy_divided({own(i), bounds[static_cast<size_t>(i)], statistics.data(), ranks}, stream);
  return r;
}

void expect_definition(const Input& in) {
  for (const bool backward : {false, true}) {
    std::vector<double> losses(static_cast<size_t>(in.p.rows)), logits(in.logits.begin(), in.logits.end());
    cross_entropy_reference(in.args(backward), losses.data(), logits.data(), static_cast<double>(kScale));
    for (const KernelTable* table : testing::kernel_tables()) {
      testing::SerialStream serial;
      testing::ThreadStream threads(3);
      const Result complete = whole(*table, in, backward, serial);
      EXPECT_EQ(complete.logits, whole(*table, in, backward, threads).logits);
      for (const Result& got : {complete, divided(*table, in, backward, serial)}) {
        for (size_t r = 0; r < losses.size(); ++r)
          ASSERT_NEAR(static_cast<double>(got.losses[r]), losses[r], 2e-5 * (1 + std::abs(losses[r]))) << r;
        for (size_t i = 0; i < logits.size(); ++i)
          ASSERT_NEAR(static_cast<double>(got.logits[i]), logits[i], backward ? 2e-6 : 1e-5 * in.p.spread)
              << "row " << i / static_cast<size_t>(in.p.vocab) << " column "
              << i % static_cast<size_t>(in.p.vocab);
      }
    }
  }
}

TEST(Teacher, LossAndGradientAreThoseOfTheDefinition) {
  for (const float temperature : {1.0f, 2.0f, 0.5f})
    for (const float weight : {1.0f, 0.3f})
      for (const float softcap : {0.0f, 5.0f}) {
        SCOPED_TRACE(::testing::PrintToString(temperature) + " " + ::testing::PrintToString(weight) + " " +
                     ::testing::PrintToString(softcap));
        expect_definition(Input({10, 77, 5, temperature, weight, softcap}));
        expect_definition(Input({5, 9001, 64, temperature, weight, softcap, true}));
      }
  expect_definition(Input({2, 1, 1}));
  expect_definition(Input({3, 2000, kMostTeacherIds, 1.5f, 0.5f}));
}

/// The teacher's row is the softmax of the logits themselves, over the whole vocabulary.
TEST(Teacher, AModelEqualToItsTeacherHasNoDivergenceAndNoGradient) {
  for (const float temperature : {1.0f, 3.0f}) {
    Input in({5, 700, 700, temperature});
    for (int64_t r = 0; r < in.p.rows; ++r) {
      double sum = 0;
      for (int64_t j = 0; j < 700; ++j)
        sum += std::exp(static_cast<double>(in.logits[static_cast<size_t>(r * 700 + j)]));
      for (int64_t i = 0; i < 700; ++i) {
        const auto at = static_cast<size_t>(r * 700 + i);
        in.logprobs[at] = static_cast<float>(
            static_cast<double>(in.logits[static_cast<size_t>(r * 700 + in.ids[at])]) - std::log(sum));
      }
    }
    for (const KernelTable* table : testing::kernel_tables()) {
      testing::SerialStream stream;
      for (const Result& got : {whole(*table, in, true, stream), divided(*table, in, true, stream)}) {
        for (const float loss : got.losses) EXPECT_NEAR(loss, 0.0, 1e-5);
        for (const float g : got.logits) EXPECT_NEAR(g, 0.0, 1e-7);
      }
    }
  }
}

/// A teacher with one id gives it probability 1, so the id is the only target.
TEST(Teacher, OneIdIsATargetBitForBit) {
  Input in({10, 5000, 1});
  for (size_t r = 0; r < in.targets.size(); ++r)
    if (in.targets[r] != -100) in.targets[r] = in.ids[r];
  for (const KernelTable* table : testing::kernel_tables()) {
    testing::SerialStream stream;
    const Result taught = whole(*table, in, true, stream);
    Result plain = {std::vector<float>(in.targets.size(), NAN), in.logits};
    CrossEntropy a = in.args(true);
    a.teacher = {}, a.losses = plain.losses.data(), a.logits = plain.logits.data();
    table->cross_entropy(a, stream);
    EXPECT_EQ(taught.logits, plain.logits);
    for (size_t r = 0; r < plain.losses.size(); ++r) EXPECT_FLOAT_EQ(taught.losses[r], plain.losses[r]);
  }
}

TEST(Teacher, RowsOfMaskedTargetsAreNotRead) {
  Input in({5, 77, 3});
  for (int64_t i = 4 * 3; i < 5 * 3; ++i)
    in.ids[static_cast<size_t>(i)] = 1 << 30, in.logprobs[static_cast<size_t>(i)] = NAN;
  for (const KernelTable* table : testing::kernel_tables()) {
    testing::SerialStream stream;
    for (const Result& got : {whole(*table, in, true, stream), divided(*table, in, true, stream)}) {
      EXPECT_EQ(got.losses[4], 0.0f);
      for (int64_t j = 0; j < 77; ++j) EXPECT_EQ(got.logits[static_cast<size_t>(4 * 77 + j)], 0.0f);
    }
  }
}

}  // namespace teacher_test
}  // namespace hawser::kernels
