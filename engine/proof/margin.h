// Distances between tensors, and Margin: how close they come to those that are allowed.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/json_fwd.h"

namespace hawser::train {

double length_of(const float* x, int64_t count);
/// The length of a - b.
double difference_of(const float* a, const float* b, int64_t count);
double difference_of(const float* a, const double* b, int64_t count);

/// Keeps the tensor that comes closest to its limit.
class Margin {
 public:
  /// allowed > 0.
  void add(const std::string& tensor, double distance, double allowed);
  bool holds() const { return worst_ <= 1; }
  /// {tensor, distance, allowed, share_of_allowed} of the tensor that came closest.
  OrderedJson json() const;

 private:
  double worst_ = 0, distance_ = 0, allowed_ = 0;
  std::string tensor_;
};

}  // namespace hawser::train
