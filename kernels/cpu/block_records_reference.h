// Reference for records of integers: the formula of one record, number by number.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/include/block_records.h"

namespace hawser::kernels {

/// A record in the order of its numbers.
struct BlockReference {
  float absmax = 0;
  std::vector<int> codes;
};

inline float most_of(DType type) { return type == DType::kI8Block ? kMostI8 : kMostI4; }

/// x: up to 64 numbers.
inline BlockReference block_reference(DType type, const std::vector<float>& x) {
  BlockReference r;
  r.codes.assign(static_cast<size_t>(kIntBlock), 0);
  for (const float v : x) {
    if (!std::isfinite(v)) return r.absmax = NAN, r;
    r.absmax = std::max(r.absmax, std::abs(v));
  }
  uint32_t bits = std::bit_cast<uint32_t>(r.absmax);
  if (bits % 65536 != 0) bits = (bits / 65536 + 1) * 65536;
  r.absmax = std::bit_cast<float>(bits);
  if (std::isinf(r.absmax)) return r.absmax = NAN, r;
  if (r.absmax < std::ldexp(1.0f, -119)) return r.absmax = 0, r;
  const float factor = most_of(type) / r.absmax;
  for (size_t i = 0; i < x.size(); ++i) r.codes[i] = static_cast<int>(std::nearbyint(x[i] * factor));
  return r;
}

inline float block_number(DType type, const BlockReference& r, int64_t i) {
  return static_cast<float>(r.codes[static_cast<size_t>(i)]) * (r.absmax / most_of(type));
}

/// Returns the bytes of a record.
inline std::vector<uint8_t> block_bytes(DType type, const BlockReference& r) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < static_cast<size_t>(type == DType::kI8Block ? kIntBlock : kIntBlock / 2); ++i)
    bytes.push_back(static_cast<uint8_t>(
        type == DType::kI8Block ? r.codes[i] : (r.codes[i] & 15) | r.codes[i + kIntBlock / 2] * 16));
  const unsigned absmax = std::isnan(r.absmax) ? kAbsmaxNan : std::bit_cast<uint32_t>(r.absmax) >> 16;
  bytes.push_back(static_cast<uint8_t>(absmax & 255)), bytes.push_back(static_cast<uint8_t>(absmax >> 8));
  return bytes;
}

/// Returns the numbers as they are after encoding and decoding.
inline std::vector<float> through_blocks(DType type, const std::vector<float>& x) {
  std::vector<float> y;
  for (size_t begin = 0; begin < x.size(); begin += kIntBlock) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
    const size_t n = std::min<size_t>(kIntBlock, x.size() - begin);
    const BlockReference r = block_reference(type, {first, first + static_cast<std::ptrdiff_t>(n)});
    for (size_t i = 0; i < n; ++i) y.push_back(block_number(type, r, static_cast<int64_t>(i)));
  }
  return y;
}

}  // namespace hawser::kernels
