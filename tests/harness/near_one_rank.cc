#include "tests/harness/near_one_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "tests/harness/reference_run.h"

namespace hawser::testing {
namespace {

double length_of_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i)
    squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(squares);
}

/// Returns the largest difference over tensors, each relative to the tensor's length.
double distance(const std::map<std::string, std::vector<float>>& got,
                const std::map<std::string, std::vector<float>>& want, std::string* where) {
  double worst = 0;
  EXPECT_EQ(got.size(), want.size());
  for (const auto& [name, values] : want) {
    if (name.ends_with(".k.bias")) continue;  // softmax does not depend on it, so its gradient is noise
    const double difference = length_of_difference(got.at(name), values);
    if (difference == 0) continue;
    const double d = difference / length_of_difference(values, std::vector<float>(values.size()));
    if (!(d <= worst)) worst = d, *where = name;
  }
  return worst;
}

}  // namespace

void expect_near_one_rank(const Problem& problem, const Layout& layout, int steps, double tolerance) {
  SCOPED_TRACE(problem.precision + " " + layout.name());
  Layout one;
  one.accumulation = layout.accumulation * layout.dp();
  one.recompute = layout.recompute;  // it may compress activations
  const std::vector<StepRecord> want = reference_run(problem, one, steps);
  const std::vector<StepRecord> got = run_layout(problem, layout, steps);
  for (size_t step = 0; step < want.size(); ++step) {
    std::string where;
    EXPECT_EQ(got[step].tokens, want[step].tokens);
    EXPECT_NEAR(got[step].loss, want[step].loss, tolerance * std::abs(want[step].loss));
    EXPECT_NEAR(got[step].grad_norm, want[step].grad_norm, tolerance * want[step].grad_norm);
    EXPECT_LT(distance(got[step].gradients, want[step].gradients, &where), tolerance) << where;
    EXPECT_LT(distance(got[step].weights, want[step].weights, &where), tolerance) << where;
  }
}

std::vector<Layout> divided_layouts() {
  std::vector<Layout> all(1);
  for (const char* mode : {"ring", "gather", "ulysses"})
    for (const auto& [cp, tp] : {std::pair<int64_t, int64_t>{2, 1}, {4, 1}, {2, 2}}) {
      Layout l;
      l.cp = cp, l.tp = tp, l.cp_mode = mode;
      all.push_back(l);
    }
  all[0].tp = 4;
  return all;
}

}  // namespace hawser::testing
