// Reference for records of optimizer state: each number gets the code that is the nearest of all, by roots.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/include/state_records.h"

namespace hawser::kernels {

/// The number that a code stands for: signed and squared, or unsigned and to the fourth power.
inline double state_number(DType type, int code, double absmax) {
  const double q = code / (type == DType::kS8Block ? 127.0 : 255.0);
  return (type == DType::kS8Block ? q * std::abs(q) : q * q * q * q) * absmax;
}

inline int state_code(DType type, double x, double absmax) {
  const bool first = type == DType::kS8Block;
  const int lowest = first ? -127 : x > 0 ? 1 : 0, highest = first ? 127 : 255;
  const double share = std::abs(x) / absmax;
  const double root = first ? std::copysign(std::sqrt(share), x) : std::pow(share, 0.25);
  int nearest = lowest;
  for (int code = lowest; code <= highest; ++code)
    if (std::abs(root - code / (first ? 127.0 : 255.0)) < std::abs(root - nearest / (first ? 127.0 : 255.0)))
      nearest = code;
  return nearest;
}

/// The largest magnitude of up to 64 numbers, as a record has it.
inline float state_absmax(DType type, const std::vector<double>& x) {
  double most = 0;
  for (const double v : x) {
    if (!std::isfinite(v)) return std::numeric_limits<float>::quiet_NaN();
    most = std::max(most, std::abs(v));
  }
  if (most == 0) return 0;
  return std::max(static_cast<float>(most), type == DType::kS8Block ? kLeastFirst : kLeastSecond);
}

/// Returns the bytes of the record of up to 64 numbers.
inline std::vector<uint8_t> state_record(DType type, const std::vector<double>& x) {
  std::vector<uint8_t> record(static_cast<size_t>(kStateRecord));
  const float absmax = state_absmax(type, x);
  if (absmax > 0)
    for (size_t i = 0; i < x.size(); ++i)
      record[i] = static_cast<uint8_t>(state_code(type, x[i], static_cast<double>(absmax)));
  std::memcpy(record.data() + kStateBlock, &absmax, sizeof(absmax));
  return record;
}

inline std::vector<double> state_numbers(DType type, const uint8_t* record) {
  float absmax;
  std::memcpy(&absmax, record + kStateBlock, sizeof(absmax));
  std::vector<double> x;
  for (int64_t i = 0; i < kStateBlock; ++i)
    x.push_back(state_number(type, type == DType::kS8Block ? static_cast<int8_t>(record[i]) : record[i],
                             static_cast<double>(absmax)));
  return x;
}

}  // namespace hawser::kernels
