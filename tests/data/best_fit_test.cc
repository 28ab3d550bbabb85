// Best fit test: compares best fit decreasing with the rule applied row by row.
#include "engine/data/best_fit.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/base/philox.h"

namespace hawser::data {
namespace best_fit_test {

std::vector<int32_t> random_lengths(int64_t count, int64_t cols, uint64_t seed) {
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < count; ++i)
    lengths.push_back(static_cast<int32_t>(1 + philox(seed, static_cast<uint64_t>(i), 0).v[0] % cols));
  return lengths;
}

/// Returns how full rows are, in the order in which they were begun. Looks at every row for every document.
std::vector<int64_t> obvious_fill(std::vector<int32_t> lengths, int64_t cols) {
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  std::vector<int64_t> filled;
  for (const int64_t length : lengths) {
    int64_t best = -1;
    for (size_t row = 0; row < filled.size(); ++row)
      if (filled[row] + length <= cols && (best < 0 || filled[row] > filled[static_cast<size_t>(best)]))
        best = static_cast<int64_t>(row);
    if (best < 0)
      filled.push_back(length);
    else
      filled[static_cast<size_t>(best)] += length;
  }
  std::sort(filled.begin(), filled.end());
  return filled;
}

TEST(BestFitTest, FillsRowsAsTheRuleSays) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const int64_t cols = 8 + static_cast<int64_t>(seed) * 13;
    const std::vector<int32_t> lengths = random_lengths(300, cols, seed);
    const PackedRows packed = best_fit_decreasing(lengths, cols);
    std::vector<int64_t> filled, seen = packed.documents;
    for (int64_t row = 0; row < packed.rows(); ++row) {
      int64_t sum = 0;
      for (int64_t i = packed.begins[static_cast<size_t>(row)];
           i < packed.begins[static_cast<size_t>(row) + 1]; ++i)
        sum += lengths[static_cast<size_t>(packed.documents[static_cast<size_t>(i)])];
      filled.push_back(sum);
    }
    std::sort(filled.begin(), filled.end());
    EXPECT_EQ(filled, obvious_fill(lengths, cols)) << "seed " << seed;
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> all(lengths.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    EXPECT_EQ(seen, all) << "each document once, seed " << seed;
  }
}

TEST(BestFitTest, IsTheSameAgain) {
  const std::vector<int32_t> lengths = random_lengths(1000, 64, 5);
  EXPECT_EQ(best_fit_decreasing(lengths, 64).documents, best_fit_decreasing(lengths, 64).documents);
}

TEST(BestFitTest, NoDocumentsAreNoRows) {
  EXPECT_EQ(best_fit_decreasing({}, 8).rows(), 0);
  EXPECT_EQ(one_in_each_row(3).documents, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(one_in_each_row(3).rows(), 3);
}

}  // namespace best_fit_test
}  // namespace hawser::data
