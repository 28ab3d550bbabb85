// Tests the look-ups' part of a tied embedding's gradient: it has rows of the tokens that occurred, and no
// others.
#include "engine/nn/lookup_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "tests/harness/guarded_buffer.h"

namespace hawser::nn {
namespace lookup_gradient_test {

constexpr LookupGradient::Sizes kSizes{50, 3, 8, 3}, kJoinedEach{50, 3, 8, 3, true};

using Numbers = std::vector<int32_t>;

class LookupRows : public ::testing::Test {
 protected:
  explicit LookupRows(const LookupGradient::Sizes& sizes = kSizes) : memory_(LookupGradient::bytes(sizes)) {
    std::fill_n(memory_.data(), LookupGradient::bytes(sizes), '\0');
    rows_ = LookupGradient(memory_.data(), memory_.data(), sizes);  // in place, as on the CPU
  }
  void look_up(int32_t micro_batch, const Numbers& tokens, int32_t skipped = -1) {
    rows_.look_up(micro_batch, tokens.data(), static_cast<int64_t>(tokens.size()), skipped);
  }
  Numbers index(int32_t micro_batch, size_t n) const {
    return {rows_.index(micro_batch), rows_.index(micro_batch) + n};
  }
  /// Returns the rows in use; unused rows come last and contain -1.
  Numbers tokens(int32_t micro_batch) const {
    const int32_t* const begin = rows_.tokens(micro_batch);
    const int32_t* const end = std::find(begin, begin + rows_.sizes().rows(), -1);
    EXPECT_EQ(std::count(end, begin + rows_.sizes().rows(), -1), begin + rows_.sizes().rows() - end);
    return {begin, end};
  }

  testing::GuardedBuffer<char> memory_;
  LookupGradient rows_;
};

TEST_F(LookupRows, StandInOrderOfFirstOccurrenceOnceEach) {
  look_up(0, {7, 3, 7, 49});
  look_up(1, {3, 0});
  EXPECT_EQ(index(0, 4), (Numbers{0, 1, 0, 2}));
  EXPECT_EQ(index(1, 2), (Numbers{1, 3}));
  EXPECT_EQ(tokens(1), (Numbers{7, 3, 49, 0}));
}

TEST_F(LookupRows, BeginAnewWithEveryStep) {
  look_up(0, {7, 3});
  look_up(0, {9, 7});
  EXPECT_EQ(index(0, 2), (Numbers{0, 1}));
  EXPECT_EQ(tokens(0), (Numbers{9, 7}));
}

class LookupRowsJoinedEach : public LookupRows {
 protected:
  LookupRowsJoinedEach() : LookupRows(kJoinedEach) {}
};

TEST_F(LookupRowsJoinedEach, BeginAnewWithEveryMicroBatchAndAllAreKnownAtOnce) {
  for (int step = 0; step < 2; ++step) {
    look_up(0, {7, 3});
    look_up(1, {9, 7, 9});
    look_up(2, {3});
    EXPECT_EQ(tokens(0), (Numbers{7, 3}));
    EXPECT_EQ(tokens(1), (Numbers{9, 7}));
    EXPECT_EQ(tokens(2), (Numbers{3}));
    EXPECT_EQ(index(1, 3), (Numbers{0, 1, 0}));
  }
  EXPECT_TRUE(memory_.intact());
}

TEST_F(LookupRows, OnADeviceLieWhereTheHostsNumbersNameThem) {
  testing::GuardedBuffer<char> host(LookupGradient::host_bytes(kSizes));
  std::fill_n(host.data(), LookupGradient::host_bytes(kSizes), '\0');
  LookupGradient apart(host.data(), memory_.data(), kSizes);
  apart.look_up(0, Numbers{7, 3}.data(), 2, -1);
  EXPECT_EQ(index(0, 2), (Numbers{0, 0})) << "the host's numbers were written to the device";
  EXPECT_EQ(apart.rows(), rows_.rows());
  EXPECT_EQ(apart.index(2), rows_.index(2));
  std::fill_n(apart.rows(), kSizes.rows() * kSizes.width, 5.0f);
  std::memcpy(apart.numbers(), apart.host_numbers(), static_cast<size_t>(apart.numbers_bytes()));
  EXPECT_EQ(index(0, 2), (Numbers{0, 1}));
  EXPECT_EQ(tokens(0), (Numbers{7, 3}));
  EXPECT_EQ(*apart.rows(), 5.0f) << "numbers and rows are apart";
  EXPECT_TRUE(memory_.intact() && host.intact());
}

TEST_F(LookupRows, ASkippedTokenHasNone) {
  look_up(0, {4, 0, 4, 0}, 0);
  EXPECT_EQ(index(0, 4), (Numbers{0, -1, 0, -1}));
  EXPECT_EQ(tokens(0), (Numbers{4}));
}

TEST_F(LookupRows, NameTheSameTokensAsAMapWould) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  for (int step = 0; step < 200; ++step) {
    std::map<int32_t, int32_t> expected;
    for (int32_t mb = 0; mb < 3; ++mb) {
      Numbers occurring;
      for (int i = 0; i < 8; ++i) occurring.push_back(static_cast<int32_t>(random() % 50));
      look_up(mb, occurring);
      for (size_t i = 0; i < occurring.size(); ++i)
        EXPECT_EQ(index(mb, 8)[i],
                  expected.try_emplace(occurring[i], static_cast<int32_t>(expected.size())).first->second)
            << "seed " << kSeed;
    }
    EXPECT_EQ(tokens(2).size(), expected.size());
  }
  EXPECT_TRUE(memory_.intact());
}

TEST(LookupGradient, TakesNoMoreRowsThanTheTableHas) {
  EXPECT_EQ((LookupGradient::Sizes{50, 3, 8, 125}.rows()), 50);
  EXPECT_EQ((LookupGradient::Sizes{50, 3, 8, 3}.rows()), 24);
  EXPECT_EQ((LookupGradient::Sizes{50, 3, 8, 3, true}.rows()), 8);
}

}  // namespace lookup_gradient_test
}  // namespace hawser::nn
