// AdamW, SGD and Lion on every level, compared with fp64, and their promise that a step does not depend on
// how the elements are divided.
#include "kernels/include/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/optimizer_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace optimizer_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;

constexpr OptimizerScalars kScalars = {
    .lr = 1e-2f, .grad_scale = 0.7f, .bias_correction1 = 0.19f, .bias_correction2 = 0.002f};

/// Weight, two moments, gradient and bf16 copy of n elements.
struct State {
  GuardedBuffer<float> w, m, v, grad;
  GuardedBuffer<uint16_t> copy;

  explicit State(int64_t n) : w(n), m(n), v(n), grad(n), copy(n) {
    std::mt19937 random(9);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < n; ++i) {
      w[i] = uniform(random);
      m[i] = 0.1f * uniform(random);
      v[i] = 0.01f + 0.01f * uniform(random);
      grad[i] = i % 7 == 0 ? 0.0f : uniform(random);
    }
  }
  bool same(const State& o) const {
    return w.same_bits(o.w) && m.same_bits(o.m) && v.same_bits(o.v) && copy.same_bits(o.copy);
  }
  bool intact() const { return w.intact() && m.intact() && v.intact() && grad.intact() && copy.intact(); }

  AdamW adamw(int64_t begin, int64_t end) {
    AdamW args;
    args.weight = w.data() + begin, args.copy = copy.data() + begin, args.m = m.data() + begin;
    args.v = v.data() + begin, args.grad = grad.data() + begin, args.scalars = &kScalars;
    args.n = end - begin, args.weight_decay = 0.1f;
    return args;
  }
  Lion lion(int64_t begin, int64_t end) {
    Lion args;
    args.weight = w.data() + begin, args.copy = copy.data() + begin, args.m = m.data() + begin;
    args.grad = grad.data() + begin, args.scalars = &kScalars;
    args.n = end - begin, args.weight_decay = 0.1f;
    return args;
  }
  Sgd sgd(int64_t begin, int64_t end, float momentum, bool nesterov) {
    Sgd args;
    args.weight = w.data() + begin, args.copy = copy.data() + begin;
    args.buf = momentum > 0 ? m.data() + begin : nullptr;
    args.grad = grad.data() + begin, args.scalars = &kScalars;
    args.n = end - begin, args.momentum = momentum, args.weight_decay = 0.1f, args.nesterov = nesterov;
    return args;
  }
};

void expect_copies(const State& s, const char* level) {
  for (int64_t i = 0; i < s.w.size(); ++i) ASSERT_EQ(testing::to_bf16(s.w[i]), s.copy[i]) << level;
}

TEST(AdamW, MatchesFp64) {
  for (const int64_t n : {1, 5, 16, 31, 20000}) {
    for (const KernelTable* table : testing::kernel_tables()) {
      State s(n), before(n);
      SerialStream stream(2);
      table->adamw(s.adamw(0, n), stream);
      EXPECT_TRUE(s.intact());
      expect_copies(s, table->name);
      for (int64_t i = 0; i < n; ++i) {
        double w = before.w[i], m = before.m[i], v = before.v[i];
        adamw_reference(s.adamw(0, n), kScalars, w, m, v, static_cast<double>(before.grad[i]));
        ASSERT_NEAR(m, s.m[i], 1e-7) << table->name;
        ASSERT_NEAR(v, s.v[i], 1e-8) << table->name;
        ASSERT_NEAR(w, s.w[i], 3e-7) << table->name;
      }
    }
  }
}

TEST(AdamW, CutsAndWorkersChangeNoBit) {
  const int64_t n = 40007;
  for (const KernelTable* table : testing::kernel_tables()) {
    State whole(n);
    SerialStream stream(1);
    table->adamw(whole.adamw(0, n), stream);
    for (const int64_t cut : {1, 7, 1000, 16384, 39999}) {
      State parts(n);
      SerialStream shuffled(3, TaskOrder::kShuffled);
      table->adamw(parts.adamw(0, cut), shuffled);
      table->adamw(parts.adamw(cut, n), shuffled);
      EXPECT_TRUE(parts.same(whole)) << table->name << " cut at " << cut;
    }
  }
}

TEST(AdamW, ACopyThatPassesTheCachesHasTheSameBits) {
  // This many elements are written past the caches; each of the two parts is written through them.
  const int64_t n = (1 << 20) + 37;
  for (const KernelTable* table : testing::kernel_tables()) {
    State whole(n), parts(n);
    ASSERT_EQ(0u, reinterpret_cast<uintptr_t>(whole.copy.data()) % 64);
    SerialStream stream(2);
    table->adamw(whole.adamw(0, n), stream);
    table->adamw(parts.adamw(0, n / 2), stream);
    table->adamw(parts.adamw(n / 2, n), stream);
    EXPECT_TRUE(whole.same(parts)) << table->name;
    EXPECT_TRUE(whole.intact()) << table->name;
  }
}

TEST(Lion, MatchesFp64AndCutsChangeNoBit) {
  for (const int64_t n : {1, 17, 20001}) {
    for (const KernelTable* table : testing::kernel_tables()) {
      State s(n), before(n), parts(n);
      SerialStream stream(2);
      table->lion(s.lion(0, n), stream);
      EXPECT_TRUE(s.intact());
      expect_copies(s, table->name);
      for (int64_t i = 0; i < n; ++i) {
        double w = before.w[i], m = before.m[i];
        lion_reference(s.lion(0, n), kScalars, w, m, static_cast<double>(before.grad[i]));
        ASSERT_NEAR(w, s.w[i], 1e-7) << table->name;
        ASSERT_NEAR(m, s.m[i], 1e-7) << table->name;
      }
      table->lion(parts.lion(0, n / 3), stream);
      table->lion(parts.lion(n / 3, n), stream);
      EXPECT_TRUE(parts.same(s)) << table->name;
    }
  }
}

TEST(Lion, DirectionsAreOneWithASignZeroOrNotANumber) {
  constexpr float kTiny = 1e-45f, kInf = INFINITY;
  const float moments[] = {kTiny * 4, -kTiny * 4, 0.0f, -0.0f, kInf, -kInf, NAN, 3e38f};
  const float directions[] = {1, -1, 0, 0, 1, -1, NAN, 1};
  constexpr int64_t n = std::size(moments);
  for (const KernelTable* table : testing::kernel_tables()) {
    State s(n);
    for (int64_t i = 0; i < n; ++i) s.w[i] = 0, s.m[i] = moments[i], s.grad[i] = 0;
    Lion args = s.lion(0, n);
    args.beta1 = 0.75f, args.weight_decay = 0;
    SerialStream stream(1);
    table->lion(args, stream);
    for (int64_t i = 0; i < n; ++i) {
      const float step = kScalars.lr * directions[i];
      if (std::isnan(step))
        EXPECT_TRUE(std::isnan(s.w[i])) << table->name;
      else
        EXPECT_EQ(s.w[i], -step) << table->name << " " << moments[i];
    }
  }
}

TEST(Sgd, MatchesFp64WithMomentumAndNesterovAndWithout) {
  for (const auto& [momentum, nesterov] : {std::pair{0.0f, false}, {0.9f, false}, {0.9f, true}}) {
    for (const int64_t n : {1, 17, 20001}) {
      for (const KernelTable* table : testing::kernel_tables()) {
        State s(n), before(n), parts(n);
        SerialStream stream(2);
        table->sgd(s.sgd(0, n, momentum, nesterov), stream);
        EXPECT_TRUE(s.intact());
        expect_copies(s, table->name);
        for (int64_t i = 0; i < n; ++i) {
          double w = before.w[i], buf = momentum > 0 ? before.m[i] : 0.0;
          sgd_reference(s.sgd(0, n, momentum, nesterov), kScalars, w, buf,
                        static_cast<double>(before.grad[i]));
          ASSERT_NEAR(w, s.w[i], 1e-7) << table->name;
          if (momentum > 0) {
            ASSERT_NEAR(buf, s.m[i], 2e-7) << table->name;
          }
        }
        table->sgd(parts.sgd(0, n / 3, momentum, nesterov), stream);
        table->sgd(parts.sgd(n / 3, n, momentum, nesterov), stream);
        EXPECT_TRUE(parts.same(s)) << table->name;
      }
    }
  }
}

TEST(Optimizers, WorkWithoutACopy) {
  for (const KernelTable* table : testing::kernel_tables()) {
    State with(100), without(100);
    SerialStream stream(1);
    table->adamw(with.adamw(0, 100), stream);
    AdamW args = without.adamw(0, 100);
    args.copy = nullptr;
    table->adamw(args, stream);
    EXPECT_TRUE(with.w.same_bits(without.w)) << table->name;
    Sgd sgd = without.sgd(0, 100, 0.9f, false);
    sgd.copy = nullptr;
    table->sgd(sgd, stream);
    for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(0xffff, without.copy[i]);
  }
}

}  // namespace optimizer_test
}  // namespace hawser::kernels
