// Tensor distance: measures the distance between the tensors of two engines that train the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace hawser::testing {

using Tensors = std::map<std::string, std::vector<float>>;

inline double rms(const std::vector<float>& values) {
  double square = 0;
  for (const float x : values) square += double{x} * x;
  return std::sqrt(square / static_cast<double>(values.size()));
}

/// Returns the largest distance of an element, relative to the root mean square of its tensor. A key's bias
/// has no gradient except rounding errors, so the scale is never far below the largest.
inline double tensor_distance(const Tensors& wanted, const Tensors& got) {
  double worst = 0, largest = 0;
  EXPECT_EQ(wanted.size(), got.size());
  for (const auto& [name, want] : wanted) largest = std::max(largest, rms(want));
  for (const auto& [name, want] : wanted) {
    const std::vector<float>& other = got.at(name);
    const double scale = std::max(rms(want), 1e-2 * largest);
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(other[i])) return INFINITY;
      if (scale > 0) worst = std::max(worst, std::abs(double{want[i]} - other[i]) / scale);
    }
  }
  return worst;
}

}  // namespace hawser::testing
