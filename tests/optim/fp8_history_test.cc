// Fp8 history test: the maximum of each operand is that of a plain list of the last committed steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "engine/base/philox.h"
#include "engine/optim/fp8_history.h"

namespace hawser::optim {
namespace fp8_history_test {

/// A maximum of step `step`, often a repeated one, sometimes none.
float maximum_of(int64_t step, uint64_t operand) {
  const uint32_t word = philox(9, static_cast<uint64_t>(step), operand).v[0] % 16;
  return word < 3 ? 0.0f : static_cast<float>(word) / 8;
}

TEST(Fp8History, TakesTheLargestOfTheLastSteps) {
  for (const int64_t steps : {1, 2, 5, 40}) {
    Fp8History history({{"a", 64}, {"b", 1}}, steps);
    std::deque<std::vector<float>> all;
    for (int64_t step = 0; step < 100; ++step) {
      all.push_back({maximum_of(step, 0), maximum_of(step, 1)});
      if (static_cast<int64_t>(all.size()) > steps) all.pop_front();
      history.fold(all.back());
      for (size_t i = 0; i < 2; ++i) {
        float want = 0;
        for (const std::vector<float>& one : all) want = std::max(want, one[i]);
        if (want == 0) want = i == 0 ? 64 : 1;  // no step had one
        ASSERT_EQ(history.maxima()[i], want) << steps << " steps, at " << step;
      }
    }
  }
}

TEST(Fp8History, ContinuesFromItsStateAndFromThatOfALongerOne) {
  Fp8History longer({{"a"}, {"b"}}, 8), shorter({{"b", 5}, {"a", 6}, {"c", 7}}, 3),
      plain({{"b", 5}, {"a", 6}, {"c", 7}}, 3);
  for (int64_t step = 0; step < 50; ++step) {
    longer.fold({maximum_of(step, 0), maximum_of(step, 1)});
    plain.fold({maximum_of(step, 1), maximum_of(step, 0), 0});
    const float* const address = shorter.maxima();
    shorter.resume(longer.saved());
    EXPECT_EQ(shorter.maxima(), address);
    for (size_t i = 0; i < 3; ++i) ASSERT_EQ(shorter.maxima()[i], plain.maxima()[i]) << step;
    EXPECT_EQ(shorter.saved(), plain.saved()) << step;
  }
  shorter.resume(std::nullopt);
  EXPECT_EQ(shorter.maxima()[0], 5);
  EXPECT_TRUE(shorter.saved()->empty());
}

TEST(Fp8History, OfAnotherPrecisionHasNothing) {
  Fp8History none;
  none.fold({});
  none.resume(Fp8HistoryState{{"a", {{0, 1.0f}}}});
  EXPECT_EQ(none.maxima(), nullptr);
  EXPECT_FALSE(none.saved().has_value());
}

}  // namespace fp8_history_test
}  // namespace hawser::optim
