// Optimizer steps on bf16 state. A step is the fp32 step, rounded with the documented random words, bit for
// bit; it has the same bits for any division and is correct on average. The tests also show why weights and
// both moments are all rounded stochastically.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/cpu/optimizer_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace optimizer_bf16_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;

float wide(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Weight, two moments and gradient, as stored in bf16 and widened.
struct State {
  GuardedBuffer<uint16_t> w, m, v, grad;
  GuardedBuffer<float> wide_w, wide_m, wide_v, wide_grad;

  explicit State(int64_t n) : w(n), m(n), v(n), grad(n), wide_w(n), wide_m(n), wide_v(n), wide_grad(n) {
    std::mt19937 random(9);
    std::uniform_real_distribution<float> uniform(-1, 1);
    const auto set = [](GuardedBuffer<uint16_t>& narrow, GuardedBuffer<float>& f32, int64_t i, float x) {
      narrow[i] = testing::to_bf16(x);
      f32[i] = wide(narrow[i]);
    };
    for (int64_t i = 0; i < n; ++i) {
      set(w, wide_w, i, uniform(random));
      set(m, wide_m, i, 0.1f * uniform(random));
      set(v, wide_v, i, 0.01f + 0.01f * uniform(random));
      set(grad, wide_grad, i, i % 7 == 0 ? 0.0f : uniform(random));
    }
  }
  bool same(const State& o) const { return w.same_bits(o.w) && m.same_bits(o.m) && v.same_bits(o.v); }
  bool intact() const { return w.intact() && m.intact() && v.intact() && grad.intact(); }
};

constexpr OptimizerScalars kScalars = {
    .lr = 1e-2f, .grad_scale = 0.7f, .bias_correction1 = 0.19f, .bias_correction2 = 0.002f, .step = 41};
constexpr uint64_t kKey = 0xabcdef0123456789ull;

AdamWBf16 adamw_args(State& s, int64_t first, int64_t begin, int64_t end) {
  AdamWBf16 a;
  a.weight = s.w.data() + begin, a.m = s.m.data() + begin, a.v = s.v.data() + begin;
  a.grad = s.grad.data() + begin, a.scalars = &kScalars, a.n = end - begin, a.weight_decay = 0.1f;
  a.run = {kKey, first + begin};
  return a;
}
SgdBf16 sgd_args(State& s, int64_t first, int64_t begin, int64_t end) {
  SgdBf16 a;
  a.weight = s.w.data() + begin, a.buf = s.m.data() + begin, a.grad = s.grad.data() + begin;
  a.scalars = &kScalars, a.n = end - begin, a.momentum = 0.9f, a.weight_decay = 0.1f;
  a.run = {kKey, first + begin};
  return a;
}

/// Expects the f32 values, rounded as elements `first` and on.
void expect_rounded(const GuardedBuffer<uint16_t>& got, const GuardedBuffer<float>& f32, int64_t first,
                    RoundingUse use, const char* level) {
  for (int64_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(
        static_cast<float>(round_stochastically_reference(f32[i], {kKey, first}, kScalars.step, i, use)),
        wide(got[i]))
        << level << " element " << i;
}

TEST(Bf16Steps, AreTheFp32StepsRoundedByTheWordsOfTheContract) {
  for (const int64_t n : {1, 15, 64, 1000}) {
    for (const int64_t first : {0, 3, 61}) {
      for (const KernelTable* table : testing::kernel_tables()) {
        SerialStream stream(2);
        State s(n), t(n);
        table->adamw_bf16(adamw_args(s, first, 0, n), stream);
        AdamW adamw;
        adamw.weight = s.wide_w.data(), adamw.m = s.wide_m.data(), adamw.v = s.wide_v.data();
        adamw.grad = s.wide_grad.data(), adamw.scalars = &kScalars, adamw.n = n, adamw.weight_decay = 0.1f;
        table->adamw(adamw, stream);
        expect_rounded(s.w, s.wide_w, first, RoundingUse::kWeight, table->name);
        expect_rounded(s.m, s.wide_m, first, RoundingUse::kMoment1, table->name);
        expect_rounded(s.v, s.wide_v, first, RoundingUse::kMoment2, table->name);
        table->sgd_bf16(sgd_args(t, first, 0, n), stream);
        Sgd sgd;
        sgd.weight = t.wide_w.data(), sgd.buf = t.wide_m.data(), sgd.grad = t.wide_grad.data();
        sgd.scalars = &kScalars, sgd.n = n, sgd.momentum = 0.9f, sgd.weight_decay = 0.1f;
        table->sgd(sgd, stream);
        expect_rounded(t.w, t.wide_w, first, RoundingUse::kWeight, table->name);
        expect_rounded(t.m, t.wide_m, first, RoundingUse::kMoment1, table->name);
        EXPECT_TRUE(s.intact() && t.intact()) << table->name;
      }
    }
  }
}

TEST(Bf16Steps, CutsAndWorkersChangeNoBit) {
  const int64_t n = 40007;
  for (const KernelTable* table : testing::kernel_tables()) {
    State whole(n);
    SerialStream stream(1);
    table->adamw_bf16(adamw_args(whole, 5, 0, n), stream);
    for (const int64_t cut : {1, 66, 16385}) {
      State parts(n);
      SerialStream shuffled(3, TaskOrder::kShuffled);
      table->adamw_bf16(adamw_args(parts, 5, 0, cut), shuffled);
      table->adamw_bf16(adamw_args(parts, 5, cut, n), shuffled);
      EXPECT_TRUE(parts.same(whole)) << table->name << " cut at " << cut;
    }
  }
}

/// Divides the columns of a matrix into two or more parts, each in its own memory.
TEST(Bf16Steps, CutsOfColumnsChangeNoBit) {
  const int64_t rows = 23, columns = 840, n = rows * columns;
  for (const KernelTable* table : testing::kernel_tables()) {
    State whole(n);
    const State before(n);
    SerialStream stream(2);
    table->adamw_bf16(adamw_args(whole, 9, 0, n), stream);
    for (const int64_t width : {1, 7, 60, 280, 420}) {
      for (int64_t column = 0; column < columns; column += width) {
        const auto from = [&](int64_t i) { return i / width * columns + column + i % width; };
        State part(rows * width);
        for (int64_t i = 0; i < part.w.size(); ++i) {
          part.w[i] = before.w[from(i)], part.m[i] = before.m[from(i)], part.v[i] = before.v[from(i)];
          part.grad[i] = before.grad[from(i)];
        }
        const int64_t split = rows * width / 3;  // within a row, if the row is wider than 1
        for (const auto& [begin, end] : {std::pair{int64_t{0}, split}, {split, part.w.size()}}) {
          AdamWBf16 args = adamw_args(part, 0, begin, end);
          args.run = {kKey, 9 + from(begin), width, columns, begin % width};
          table->adamw_bf16(args, stream);
        }
        for (int64_t i = 0; i < part.w.size(); ++i)
          ASSERT_TRUE(part.w[i] == whole.w[from(i)] && part.m[i] == whole.m[from(i)] &&
                      part.v[i] == whole.v[from(i)])
              << table->name << ", " << width << " columns from " << column << ", element " << i;
      }
    }
  }
}

TEST(StochasticRounding, KeepsWhatBf16HoldsAndWhatIsNoNumber) {
  for (const float x : {0.0f, -0.0f, 1.0f, -1.0078125f, 3.3895314e38f, 9.1835e-41f, INFINITY, -INFINITY}) {
    const auto bits = std::bit_cast<uint32_t>(x) & 0xffff0000u;
    for (const uint32_t random : {0u, 1u, 0x7fffu, 0xffffu})
      EXPECT_EQ(bits >> 16, round_stochastically(bits, random));
  }
  for (const uint32_t nan : {0x7fc00000u, 0x7f800001u, 0xffffffffu})
    EXPECT_TRUE(std::isnan(wide(round_stochastically(nan, 0xffffu)))) << std::hex << nan;
}

/// For the weight and each moment, over many equal elements: the mean after a step is within four standard
/// deviations of the fp32 result, and the share of elements that are rounded up equals the part cut off.
TEST(StochasticRounding, IsRightOnAverage) {
  const int64_t n = 1 << 18;
  SerialStream stream(2);
  const KernelTable& table = *testing::kernel_tables().back();
  State s(n);
  for (int64_t i = 0; i < n; ++i) s.w[i] = s.w[0], s.m[i] = s.m[0], s.v[i] = s.v[0], s.grad[i] = s.grad[1];
  float w = wide(s.w[0]), m = wide(s.m[0]), v = wide(s.v[0]), grad = wide(s.grad[1]);
  table.adamw_bf16(adamw_args(s, 0, 0, n), stream);
  AdamW one;
  one.weight = &w, one.m = &m, one.v = &v, one.grad = &grad, one.scalars = &kScalars, one.n = 1;
  one.weight_decay = 0.1f;
  table.adamw(one, stream);
  const auto expect_mean = [&](const GuardedBuffer<uint16_t>& got, float exact, const char* name) {
    const float down = wide(static_cast<uint16_t>(std::bit_cast<uint32_t>(exact) >> 16)),
                up = wide(static_cast<uint16_t>((std::bit_cast<uint32_t>(exact) >> 16) + 1));
    const double share = (exact - down) / static_cast<double>(up - down);
    ASSERT_TRUE(share > 0.02 && share < 0.98) << name << ": " << share << " shows nothing";
    int64_t ups = 0;
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_TRUE(wide(got[i]) == up || wide(got[i]) == down) << name;
      ups += wide(got[i]) == up;
    }
    const double deviation = std::sqrt(share * (1 - share) / static_cast<double>(n));
    EXPECT_NEAR(share, static_cast<double>(ups) / static_cast<double>(n), 4 * deviation) << name;
  };
  expect_mean(s.w, w, "weight");
  expect_mean(s.m, m, "m");
  expect_mean(s.v, v, "v");
}

/// The gradients fall to a tenth, so with beta2 = 0.999 the second moment must fall to a hundredth. With
/// rounding to nearest it never changes, and the updates stay ten times too small; the first moment stops
/// about 4 % above its target.
TEST(StochasticRounding, LetsMomentsFollowWhereNearestStandsStill) {
  const int64_t n = 256;
  SerialStream stream(1);
  const KernelTable& table = *testing::kernel_tables().back();
  State s(n);
  OptimizerScalars scalars{.lr = 0.0f};
  float nearest_v = 1, nearest_m = 1;
  for (int64_t i = 0; i < n; ++i)
    s.m[i] = s.v[i] = testing::to_bf16(1.0f), s.grad[i] = testing::to_bf16(0.125f);
  for (uint64_t step = 1; step <= 5000; ++step) {
    scalars.step = step;
    AdamWBf16 args = adamw_args(s, 0, 0, n);
    args.scalars = &scalars, args.beta2 = 0.999f;
    table.adamw_bf16(args, stream);
    nearest_m = wide(testing::to_bf16(0.9f * nearest_m + 0.1f * 0.125f));
    nearest_v = wide(testing::to_bf16(0.999f * nearest_v + 0.001f * 0.015625f));
  }
  double m = 0, v = 0;
  for (int64_t i = 0; i < n; ++i) m += wide(s.m[i]) / n, v += wide(s.v[i]) / n;
  EXPECT_EQ(nearest_v, 1.0f);
  EXPECT_GT(nearest_m, 1.02f * 0.125f);
  const double exact_v = 0.015625 + (1 - 0.015625) * std::pow(0.999, 5000);
  EXPECT_NEAR(v, exact_v, 0.02 * exact_v);
  EXPECT_NEAR(m, 0.125, 0.002 * 0.125);
}

}  // namespace optimizer_bf16_test
}  // namespace hawser::kernels
