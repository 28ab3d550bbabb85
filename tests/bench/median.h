// Median: the middle of measured values, the upper one of two.
#pragma once

#include <algorithm>
#include <vector>

namespace hawser::bench {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace hawser::bench
