// Compares ExactSum with a plain big integer: nothing is lost, order and grouping have no effect, and the one
// rounding is to nearest even.
#include "engine/base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace hawser {
namespace exact_sum_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();

/// A two's complement integer in units of 2^-1074, made of 64-bit words with a plain ripple carry.
class BigInteger {
 public:
  /// Adds x * 2^shift, for an integer x.
  void add(int64_t x, int shift) {
    std::array<uint64_t, kSize> addend{};
    addend.fill(x < 0 ? ~uint64_t{0} : 0);
    for (int i = 0; i < shift / 64; ++i) addend[static_cast<size_t>(i)] = 0;
    const auto at = static_cast<size_t>(shift / 64);
    const auto wide = static_cast<unsigned __int128>(static_cast<__int128>(x)) << (shift % 64);
    addend[at] = static_cast<uint64_t>(wide);
    addend[at + 1] = static_cast<uint64_t>(wide >> 64);
    add_words(addend);
  }
  void add(double x) {
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);  // x = fraction * 2^exponent
    const int shift = std::max(exponent - 53 + 1074, 0);
    add(static_cast<int64_t>(std::ldexp(fraction, exponent + 1074 - shift)), shift);
  }
  bool negative() const { return words_.back() >> 63 != 0; }
  BigInteger magnitude() const {
    BigInteger result = *this;
    if (!negative()) return result;
    for (uint64_t& word : result.words_) word = ~word;
    result.add(1, 0);
    return result;
  }
  bool operator==(const BigInteger&) const = default;
  bool operator<(const BigInteger& other) const {  // compares magnitudes
    return std::lexicographical_compare(words_.rbegin(), words_.rend(), other.words_.rbegin(),
                                        other.words_.rend());
  }

 private:
  static constexpr size_t kSize = 36;
  void add_words(const std::array<uint64_t, kSize>& addend) {
    unsigned __int128 carry = 0;
    for (size_t i = 0; i < kSize; ++i) {
      carry += static_cast<unsigned __int128>(words_[i]) + addend[i];
      words_[i] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
  }
  std::array<uint64_t, kSize> words_{};
};

BigInteger distance(const BigInteger& sum, double x) {
  BigInteger d = sum;
  if (std::isinf(x)) {
    d.add(x < 0 ? 1 : -1, 1024 + 1074);  // 2^1024, which would follow the largest double
  } else {
    d.add(-x);
  }
  return d.magnitude();
}

bool even(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  return (bits & 1) == 0;
}

/// Expects x to be the double nearest to `sum`, or the even one of two that are equally near.
void expect_nearest(double x, const BigInteger& sum) {
  const BigInteger d = distance(sum, x);
  for (const double side : {-kInfinity, kInfinity}) {
    if (x == side) continue;
    const BigInteger other = distance(sum, std::nextafter(x, side));
    EXPECT_TRUE(d < other || (d == other && even(x))) << std::hexfloat << x;
  }
}

double random_double(std::mt19937_64& random, int least_exponent, int most_exponent) {
  std::uniform_int_distribution<int> exponent(least_exponent, most_exponent);
  std::uniform_real_distribution<double> fraction(1.0, 2.0);
  return std::ldexp((random() & 1) != 0 ? -fraction(random) : fraction(random), exponent(random));
}

ExactSum sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double x : values) sum.add(x);
  return sum;
}

bool same_words(ExactSum a, ExactSum b) {
  a.normalise();
  b.normalise();
  return std::memcmp(a.words, b.words, sizeof(a.words)) == 0;
}

TEST(ExactSum, IsTheNearestDoubleToTheSum) {
  std::mt19937_64 random(1);
  const std::vector<std::pair<int, int>> ranges = {{-1074, 1020}, {-1074, -1010}, {-30, 30}, {0, 0},
                                                   {900, 1020},   {-300, -200},   {-3, 70}};
  for (const auto& [least, most] : ranges) {
    for (int round = 0; round < 300; ++round) {
      ExactSum sum;
      BigInteger reference;
      const int count = 1 + static_cast<int>(random() % 8);
      for (int i = 0; i < count; ++i) {
        const double x = random_double(random, least, most);
        sum.add(x);
        reference.add(x);
      }
      expect_nearest(sum.value(), reference);
    }
  }
}

TEST(ExactSum, OfOneNumberIsThatNumber) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    uint64_t bits = random();
    double x;
    std::memcpy(&x, &bits, 8);
    if (!std::isfinite(x)) continue;
    EXPECT_EQ(sum_of({x}).value(), x);
  }
  for (const double x : {kSmallest, -kSmallest, kLargest, -kLargest, 2.2250738585072014e-308,
                         2.2250738585072009e-308, 1.0, -1.0}) {
    EXPECT_EQ(sum_of({x}).value(), x);
  }
  EXPECT_EQ(sum_of({}).value(), 0.0);
  EXPECT_FALSE(std::signbit(sum_of({-0.0}).value()));
}

TEST(ExactSum, RoundsTiesToEvenAndSeesEveryBitBelow) {
  const double half = std::ldexp(1.0, -53), next = 1 + 2 * half, after = 1 + 4 * half;
  EXPECT_EQ(sum_of({1, half}).value(), 1.0);
  EXPECT_EQ(sum_of({1, half, kSmallest}).value(), next);
  EXPECT_EQ(sum_of({1, half, -kSmallest}).value(), 1.0);
  EXPECT_EQ(sum_of({next, half}).value(), after);
  EXPECT_EQ(sum_of({next, half, -kSmallest}).value(), next);
  EXPECT_EQ(sum_of({-next, -half}).value(), -after);
  EXPECT_EQ(sum_of({2 - 2 * half, half}).value(), 2.0);  // the carry reaches the exponent
}

TEST(ExactSum, OverflowsOnlyAtTheEnd) {
  const double half = std::ldexp(1.0, 970);  // half of the largest double's last place
  EXPECT_EQ(sum_of({kLargest, kLargest}).value(), kInfinity);
  EXPECT_EQ(sum_of({-kLargest, -kLargest}).value(), -kInfinity);
  EXPECT_EQ(sum_of({kLargest, kLargest, -kLargest}).value(), kLargest);
  EXPECT_EQ(sum_of({kLargest, half}).value(), kInfinity);
  EXPECT_EQ(sum_of({kLargest, half, -kSmallest}).value(), kLargest);
  ExactSum many = sum_of({kLargest});
  for (int i = 0; i < 40; ++i) many.merge(ExactSum(many));
  EXPECT_EQ(many.value(), kInfinity);
  ExactSum negative = sum_of({-kLargest});
  for (int i = 0; i < 40; ++i) negative.merge(ExactSum(negative));
  EXPECT_EQ(negative.value(), -kInfinity);
  many.merge(negative);
  many.add(1.5);
  EXPECT_EQ(many.value(), 1.5);
}

TEST(ExactSum, CancelsCompletely) {
  std::mt19937_64 random(3);
  ExactSum sum = sum_of({1e300, 1, -1e300});
  EXPECT_EQ(sum.value(), 1.0);
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(random_double(random, -1074, 1020));
  for (const double x : values) sum.add(x);
  for (const double x : values) sum.add(-x);
  EXPECT_EQ(sum.value(), 1.0);
  sum.add(-1);
  EXPECT_TRUE(same_words(sum, sum_of({0.0})));
  EXPECT_FALSE(std::signbit(sum.value()));
}

TEST(ExactSum, IsTheSameForEveryOrderAndGrouping) {
  std::mt19937_64 random(4);
  std::vector<double> values;
  for (int i = 0; i < 3000; ++i) values.push_back(random_double(random, -400, 400));
  const ExactSum expected = sum_of(values);
  for (int round = 0; round < 10; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    std::vector<ExactSum> groups(1 + random() % 40);
    for (const double x : values) groups[random() % groups.size()].add(x);
    while (groups.size() > 1) {  // merges them in a random tree
      std::swap(groups[random() % groups.size()], groups.back());
      const ExactSum last = groups.back();
      groups.pop_back();
      if ((random() & 1) != 0) groups.front().normalise();
      groups[random() % groups.size()].merge(last);
    }
    EXPECT_EQ(groups[0].value(), expected.value());
    EXPECT_TRUE(same_words(groups[0], expected));
  }
}

TEST(ExactSum, JoinsRanksByAddingWords) {
  std::mt19937_64 random(5);
  std::vector<double> values;
  ExactSum ranks[3], joined;
  for (int i = 0; i < 300; ++i) {
    values.push_back(random_double(random, -100, 100));
    ranks[i % 3].add(values.back());
  }
  for (ExactSum& rank : ranks) {
    rank.normalise();
    for (int i = 0; i < ExactSum::kWords; ++i) joined.words[i] += rank.words[i];
  }
  EXPECT_TRUE(same_words(joined, sum_of(values)));
  EXPECT_EQ(joined.value(), sum_of(values).value());
}

TEST(ExactSum, CarriesBeforeALimbOverflows) {
  for (const double x : {1 - std::ldexp(1.0, -53), std::ldexp(1.0, -31) - 1, 3e-320}) {
    ExactSum sum = sum_of({x});
    for (int i = 0; i < 60; ++i) {
      sum.merge(ExactSum(sum));
      ASSERT_EQ(sum.value(), std::ldexp(x, i + 1));
    }
    EXPECT_LE(sum.words[ExactSum::kAdds], ExactSum::kMaxAdds);
    ExactSum full = sum_of({x});  // as if after kMaxAdds additions
    for (int i = 0; i < ExactSum::kWords; ++i) full.words[i] *= ExactSum::kMaxAdds;
    BigInteger reference;
    for (int bit = 0; bit < 31; ++bit) reference.add(std::ldexp(x, bit));
    expect_nearest(full.value(), reference);
    full.add(x);
    EXPECT_EQ(full.value(), std::ldexp(x, 31));
    EXPECT_LE(full.words[ExactSum::kAdds], 2);
  }
}

TEST(ExactSum, AMillionAdditions) {
  std::mt19937_64 random(6);
  ExactSum sum;
  BigInteger reference;
  for (int i = 0; i < 1 << 20; ++i) {
    const double x = i % 2 == 0 ? 0.1 : random_double(random, -60, 10);
    sum.add(x);
    reference.add(x);
  }
  EXPECT_EQ(sum.words[ExactSum::kAdds], 1 << 20);
  expect_nearest(sum.value(), reference);
}

TEST(ExactSum, NonFiniteValuesWinAsInIeeeSums) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sum_of({1, kInfinity, -kLargest}).value(), kInfinity);
  EXPECT_EQ(sum_of({-kInfinity, 1, -kInfinity}).value(), -kInfinity);
  EXPECT_TRUE(std::isnan(sum_of({kInfinity, -kInfinity}).value()));
  EXPECT_TRUE(std::isnan(sum_of({1, nan}).value()));
  EXPECT_TRUE(std::isnan(sum_of({kInfinity, -nan, kInfinity}).value()));
  ExactSum sum = sum_of({kInfinity});
  sum.merge(sum_of({1}));
  EXPECT_EQ(sum.value(), kInfinity);
  sum.merge(sum_of({-kInfinity}));
  EXPECT_TRUE(std::isnan(sum.value()));
}

}  // namespace exact_sum_test
}  // namespace hawser
