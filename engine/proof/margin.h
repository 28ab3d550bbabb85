// Distances between tensors, and Margin, which records how close distances come to their limits.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/json_fwd.h"

namespace hawser::train {

/// Returns the length (L2 norm) of x.
double length_of(const float* x, int64_t count);
/// Returns the length of a - b.
double difference_of(const float* a, const float* b, int64_t count);
double difference_of(const float* a, const double* b, int64_t count);

/// Keeps the tensor that comes closest to its limit.
class Margin {
 public:
  /// Adds a tensor and its limit `allowed`, which must be positive.
  void add(const std::string& tensor, double distance, double allowed);
  bool holds() const { return worst_ <= 1; }
  /// Returns {tensor, distance, allowed, share_of_allowed} of the tensor that came closest.
  OrderedJson json() const;

 private:
  double worst_ = 0, distance_ = 0, allowed_ = 0;
  std::string tensor_;
};

}  // namespace hawser::train
