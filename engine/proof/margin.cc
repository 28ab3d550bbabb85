#include "engine/proof/margin.h"

#include <cmath>

#include "engine/base/json.h"

namespace hawser::train {
namespace {

template <class T>
double distance(const float* a, const T* b, int64_t count) {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += d * d;
  }
  return std::sqrt(squares);
}

}  // namespace

double length_of(const float* x, int64_t count) {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return std::sqrt(squares);
}

double difference_of(const float* a, const float* b, int64_t count) { return distance(a, b, count); }
double difference_of(const float* a, const double* b, int64_t count) { return distance(a, b, count); }

void Margin::add(const std::string& tensor, double distance, double allowed) {
  if (std::isnan(worst_) || (distance <= worst_ * allowed && !tensor_.empty())) return;
  worst_ = distance / allowed, tensor_ = tensor, distance_ = distance, allowed_ = allowed;
}

OrderedJson Margin::json() const {
  return {{"tensor", tensor_}, {"distance", distance_}, {"allowed", allowed_}, {"share_of_allowed", worst_}};
}

}  // namespace hawser::train
