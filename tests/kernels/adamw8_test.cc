// AdamW with moments in records, on every level: all codes survive a step that changes no number, absmax is
// exact, second moments above 0 stay above 0, and steps do not depend on cuts, workers or, beyond the
// records' rounding, on the records.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/execute/state_records.h"
#include "kernels/cpu/optimizer_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace adamw8_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;

constexpr OptimizerScalars kStill = {.lr = 0.0f};
constexpr OptimizerScalars kScalars = {
    .lr = 1e-2f, .grad_scale = 0.7f, .bias_correction1 = 0.19f, .bias_correction2 = 0.002f};
constexpr SettingsRun kRuns[] = {{100, 0.1f, 1.0f}, {5000, 0.0f, 0.5f}, {1 << 30, 0.2f, 1.0f}};

struct State {
  GuardedBuffer<float> w, grad;
  GuardedBuffer<uint8_t> m, v;
  GuardedBuffer<uint16_t> copy;

  explicit State(int64_t blocks)
      : w(blocks * kStateBlock),
        grad(blocks * kStateBlock),
        m(blocks * kStateRecord),
        v(blocks * kStateRecord),
        copy(blocks * kStateBlock) {
    std::mt19937 random(11);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> ms, vs;
    for (int64_t i = 0; i < w.size(); ++i) {
      w[i] = uniform(random), grad[i] = uniform(random);
      ms.push_back(0.1f * uniform(random)), vs.push_back(std::pow(uniform(random), 4.0f));
    }
    train::encode_state(DType::kS8Block, ms.data(), w.size(), m.data());
    train::encode_state(DType::kU8Block, vs.data(), w.size(), v.data());
  }
  void set(int64_t block, const std::vector<uint8_t>& of_m, const std::vector<uint8_t>& of_v) {
    std::copy(of_m.begin(), of_m.end(), m.data() + block * kStateRecord);
    std::copy(of_v.begin(), of_v.end(), v.data() + block * kStateRecord);
  }
  AdamW8 step(int64_t begin, int64_t end, const OptimizerScalars& scalars) {
    AdamW8 a;
    a.weight = w.data() + begin * kStateBlock, a.copy = copy.data() + begin * kStateBlock;
    a.m = m.data() + begin * kStateRecord, a.v = v.data() + begin * kStateRecord;
    a.grad = grad.data() + begin * kStateBlock, a.scalars = &scalars, a.runs = kRuns;
    a.first = begin * kStateBlock, a.n = (end - begin) * kStateBlock;
    return a;
  }
  bool same(const State& o) const {
    return w.same_bits(o.w) && m.same_bits(o.m) && v.same_bits(o.v) && copy.same_bits(o.copy);
  }
  bool intact() const { return w.intact() && m.intact() && v.intact() && grad.intact() && copy.intact(); }
};

/// Records that together have all codes, each with its largest one, and this absmax.
std::vector<std::vector<uint8_t>> all_codes(DType type, float absmax) {
  std::vector<std::vector<uint8_t>> records;
  const int lowest = type == DType::kS8Block ? -127 : 0, highest = type == DType::kS8Block ? 127 : 255;
  for (int code = lowest; code <= highest;) {
    std::vector<uint8_t> record(static_cast<size_t>(kStateRecord));
    for (int64_t i = 0; i < kStateBlock - 1; ++i, code = std::min(code + 1, highest + 1))
      record[static_cast<size_t>(i)] = static_cast<uint8_t>(std::min(code, highest));
    record[kStateBlock - 1] = static_cast<uint8_t>(highest);
    std::memcpy(record.data() + kStateBlock, &absmax, sizeof(absmax));
    records.push_back(record);
  }
  return records;
}

std::vector<float> many_absmax(float least) {
  std::vector<float> all = {least, std::nextafter(least, 1.0f), 1.0f, 0.1f,
                            std::numeric_limits<float>::max()};
  std::mt19937 random(5);
  std::uniform_real_distribution<float> exponent(-80, 100);
  for (int i = 0; i < 300; ++i) all.push_back(std::exp2(exponent(random)));
  return all;
}

TEST(AdamW8, AllCodesSurviveDecodingAndEncoding) {
  std::vector<std::vector<uint8_t>> ms, vs;
  for (const float absmax : many_absmax(kLeastFirst))
    for (const auto& record : all_codes(DType::kS8Block, absmax)) ms.push_back(record);
  for (const float absmax : many_absmax(kLeastSecond))
    for (const auto& record : all_codes(DType::kU8Block, absmax)) vs.push_back(record);
  const auto blocks = static_cast<int64_t>(std::min(ms.size(), vs.size()));
  EXPECT_GE(blocks, 1500);
  for (const KernelTable* table : testing::kernel_tables()) {
    State s(blocks);
    for (int64_t b = 0; b < blocks; ++b) s.set(b, ms[static_cast<size_t>(b)], vs[static_cast<size_t>(b)]);
    for (int64_t i = 0; i < s.grad.size(); ++i) s.grad[i] = 0;
    const std::vector<uint8_t> m(s.m.data(), s.m.data() + s.m.size()), v(s.v.data(), s.v.data() + s.v.size());
    AdamW8 args = s.step(0, blocks, kStill);
    args.beta1 = args.beta2 = 1;
    SerialStream stream(2);
    table->adamw8(args, stream);
    EXPECT_TRUE(std::equal(m.begin(), m.end(), s.m.data())) << table->name;
    EXPECT_TRUE(std::equal(v.begin(), v.end(), s.v.data())) << table->name;
    EXPECT_TRUE(s.intact()) << table->name;
  }
  for (const auto& [type, records] : {std::pair{DType::kS8Block, &ms}, {DType::kU8Block, &vs}})
    for (const std::vector<uint8_t>& record : *records) {
      float numbers[kStateBlock];
      std::vector<uint8_t> again(record.size());
      train::decode_state(type, record.data(), kStateBlock, numbers);
      train::encode_state(type, numbers, kStateBlock, again.data());
      ASSERT_EQ(again, record);
      const std::vector<double> expected = state_numbers(type, record.data());
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(static_cast<double>(numbers[i]), expected[i],
                    1e-6 * expected[i] * (expected[i] < 0 ? -1 : 1));
    }
}

TEST(AdamW8, KernelsAndTheHostEncodeAlike) {
  for (const KernelTable* table : testing::kernel_tables()) {
    State s(40);
    AdamW8 args = s.step(0, 40, kStill);
    args.beta1 = args.beta2 = 0;  // the moments are the gradient and its square
    SerialStream stream(1);
    table->adamw8(args, stream);
    std::vector<uint8_t> m(static_cast<size_t>(s.m.size())), v(m.size());
    std::vector<float> squares;
    for (int64_t i = 0; i < s.grad.size(); ++i) squares.push_back(s.grad[i] * s.grad[i]);
    train::encode_state(DType::kS8Block, s.grad.data(), s.grad.size(), m.data());
    train::encode_state(DType::kU8Block, squares.data(), s.grad.size(), v.data());
    EXPECT_TRUE(std::equal(m.begin(), m.end(), s.m.data())) << table->name;
    EXPECT_TRUE(std::equal(v.begin(), v.end(), s.v.data())) << table->name;
  }
}

TEST(AdamW8, CutsAndWorkersChangeNoBit) {
  constexpr int64_t kBlocks = 700;
  for (const KernelTable* table : testing::kernel_tables()) {
    State whole(kBlocks);
    SerialStream stream(1);
    table->adamw8(whole.step(0, kBlocks, kScalars), stream);
    EXPECT_TRUE(whole.intact());
    for (int64_t i = 0; i < whole.w.size(); ++i) ASSERT_EQ(testing::to_bf16(whole.w[i]), whole.copy[i]);
    for (const int64_t cut : {1, 2, 79, 256, 699}) {
      State parts(kBlocks);
      SerialStream shuffled(3, TaskOrder::kShuffled);
      table->adamw8(parts.step(0, cut, kScalars), shuffled);
      table->adamw8(parts.step(cut, kBlocks, kScalars), shuffled);
      EXPECT_TRUE(parts.same(whole)) << table->name << " cut at " << cut;
    }
  }
}

/// A second moment far below its record's largest must not be 0: the update would be m / eps. Here one
/// element had large gradients, so that the others' squares are below the finest step.
TEST(AdamW8, ASecondMomentAboveZeroStaysAboveZero) {
  for (const KernelTable* table : testing::kernel_tables()) {
    State s(1);
    std::vector<double> m(static_cast<size_t>(kStateBlock)), v(m.size());
    v[0] = 1e6;
    s.set(0, state_record(DType::kS8Block, m), state_record(DType::kU8Block, v));
    for (int64_t i = 0; i < kStateBlock; ++i) s.grad[i] = i < 2 ? 0.0f : 1e-4f, s.w[i] = 0;
    AdamW8 args = s.step(0, 1, kScalars);
    SerialStream stream(1);
    table->adamw8(args, stream);
    for (int64_t i = 1; i < kStateBlock; ++i) {
      EXPECT_EQ(s.v.data()[i], i == 1 ? 0 : 1) << table->name << " " << i;
      EXPECT_EQ(s.m.data()[i], i == 1 ? 0 : 127) << table->name << " " << i;
      s.grad[i] = 0, s.w[i] = 0;
    }
    table->adamw8(args, stream);
    for (int64_t i = 0; i < kStateBlock; ++i)
      EXPECT_LE(std::abs(s.w[i]), kScalars.lr) << table->name << " " << i;
  }
}

TEST(AdamW8, ANumberThatIsNotFiniteSpoilsItsRecordAlone) {
  for (const KernelTable* table : testing::kernel_tables())
    for (const float bad : {NAN, INFINITY, -INFINITY, 3e38f}) {
      State s(3), sound(3);
      SerialStream stream(1);
      table->adamw8(sound.step(0, 3, kScalars), stream);
      s.grad[kStateBlock + 9] = bad;
      table->adamw8(s.step(0, 3, kScalars), stream);
      for (const int64_t block : {0, 2}) {
        EXPECT_TRUE(std::equal(s.m.data() + block * kStateRecord, s.m.data() + (block + 1) * kStateRecord,
                               sound.m.data() + block * kStateRecord));
        EXPECT_TRUE(std::equal(s.v.data() + block * kStateRecord, s.v.data() + (block + 1) * kStateRecord,
                               sound.v.data() + block * kStateRecord));
      }
      float numbers[kStateBlock];
      train::decode_state(DType::kU8Block, s.v.data() + kStateRecord, kStateBlock, numbers);
      for (const float x : numbers) EXPECT_TRUE(std::isnan(x)) << table->name << " " << bad;
    }
}

}  // namespace adamw8_test
}  // namespace hawser::kernels
