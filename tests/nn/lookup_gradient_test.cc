// The look-ups' part of a tied embedding's gradient: rows of the tokens that occurred, and no others.
#include "engine/nn/lookup_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tests/harness/guarded_buffer.h"

namespace hawser::nn {
namespace {

constexpr LookupGradient::Sizes kSizes{50, 3, 24, 8};

class LookupRows : public ::testing::Test {
 protected:
  LookupRows() : memory_(LookupGradient::bytes(kSizes)) {
    std::fill_n(memory_.data(), LookupGradient::bytes(kSizes), '\0');
    rows_ = LookupGradient(memory_.data(), memory_.data(), kSizes);  // in place, as on the CPU
  }
  /// How many rows are new.
  int64_t find(const std::vector<int32_t>& tokens, int32_t skipped = -1) {
    return rows_.find_rows(tokens.data(), static_cast<int64_t>(tokens.size()), skipped);
  }
  std::vector<int32_t> index(size_t n) const { return {rows_.host_index(), rows_.host_index() + n}; }
  std::vector<int32_t> tokens() const { return {rows_.host_tokens(), rows_.host_tokens() + rows_.count()}; }

  testing::GuardedBuffer<char> memory_;
  LookupGradient rows_;
};

TEST_F(LookupRows, StandInOrderOfFirstOccurrenceOnceEach) {
  EXPECT_EQ(find({7, 3, 7, 49}), 3);
  EXPECT_EQ(index(4), (std::vector<int32_t>{0, 1, 0, 2}));
  EXPECT_EQ(find({3, 0}), 1);  // of the next micro-batch
  EXPECT_EQ(index(2), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(tokens(), (std::vector<int32_t>{7, 3, 49, 0}));
}

TEST_F(LookupRows, AreNewAgainAfterTheyWereForgotten) {
  find({7, 3});
  rows_.clear();
  EXPECT_EQ(rows_.count(), 0);
  EXPECT_EQ(find({9, 7}), 2);
  EXPECT_EQ(tokens(), (std::vector<int32_t>{9, 7}));
}

TEST_F(LookupRows, OnADeviceLieWhereTheHostsNumbersNameThem) {
  testing::GuardedBuffer<char> host(LookupGradient::host_bytes(kSizes));
  std::fill_n(host.data(), LookupGradient::host_bytes(kSizes), '\0');
  LookupGradient apart(host.data(), memory_.data(), kSizes);
  const std::vector<int32_t> tokens{7, 3};
  apart.find_rows(tokens.data(), 2, -1);
  EXPECT_EQ(rows_.count(), 0) << "the host's numbers were written to the device";
  EXPECT_EQ(apart.rows(), rows_.rows());
  EXPECT_EQ(apart.index(), rows_.index());
  std::fill_n(apart.rows(), kSizes.rows() * kSizes.width, 5.0f);
  EXPECT_TRUE(memory_.intact() && host.intact());
}

TEST_F(LookupRows, ASkippedTokenHasNone) {
  find({4, 0, 4, 0}, 0);
  EXPECT_EQ(index(4), (std::vector<int32_t>{0, -1, 0, -1}));
  EXPECT_EQ(tokens(), (std::vector<int32_t>{4}));
}

TEST_F(LookupRows, NameTheSameTokensAsAMapWould) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  for (int step = 0; step < 200; ++step) {
    std::map<int32_t, int32_t> expected;
    rows_.clear();
    for (int call = 0; call < 3; ++call) {
      std::vector<int32_t> tokens;
      for (int i = 0; i < 8; ++i) tokens.push_back(static_cast<int32_t>(random() % 50));
      find(tokens);
      for (size_t i = 0; i < tokens.size(); ++i)
        EXPECT_EQ(index(8)[i],
                  expected.try_emplace(tokens[i], static_cast<int32_t>(expected.size())).first->second)
            << "seed " << kSeed;
    }
    EXPECT_EQ(rows_.count(), static_cast<int64_t>(expected.size()));
  }
  EXPECT_TRUE(memory_.intact());
}

TEST(LookupGradient, TakesNoMoreRowsThanTheTableHas) {
  EXPECT_EQ((LookupGradient::Sizes{50, 3, 1000, 8}.rows()), 50);
  EXPECT_EQ((LookupGradient::Sizes{50, 3, 20, 8}.rows()), 20);
}

}  // namespace
}  // namespace hawser::nn
