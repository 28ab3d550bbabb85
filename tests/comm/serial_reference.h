// Serial reference: the expected result of every operation, computed by one thread from all members' inputs,
// by the definition in ProcessGroup.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "engine/comm/process_group.h"
#include "kernels/cpu/block_records_reference.h"
#include "tests/harness/kernel_levels.h"

namespace hawser::testing {

/// Returns x rounded to f16, to nearest even, by its definition: eleven significant bits, in units of at
/// least 2^-24.
inline float rounded_to_half(float x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), -14);
  const float value = std::ldexp(std::nearbyint(std::ldexp(x, 10 - exponent)), exponent - 10);
  return std::abs(value) > 65504.0f ? std::copysign(INFINITY, x) : value;
}

/// Returns x rounded to bf16 or f16, or unchanged for f32.
inline float rounded_to(float x, DType type) {
  if (type == DType::kF32) return x;
  return type == DType::kBf16 ? from_bf16(to_bf16(x)) : rounded_to_half(x);
}

/// Returns one element's sum over members in the order that `reduction` specifies, unless addends are sent in
/// records.
inline float reference_sum(const std::vector<float>& addends, const comm::Reduction& reduction) {
  const auto members = static_cast<int32_t>(addends.size());
  std::vector<float> partial;
  for (const float x : addends) partial.push_back(rounded_to(x, reduction.wire));
  if (reduction.tree) {
    while (partial.size() > 1) {
      std::vector<float> next;
      for (size_t i = 0; i < partial.size(); i += 2) next.push_back(partial[i] + partial[i + 1]);
      partial = next;
    }
    return rounded_to(partial[0], reduction.round_to);
  }
  const int32_t group = reduction.sum_group == 0 ? members : reduction.sum_group;
  float total = 0;
  for (int32_t g = 0; g < members; g += group) {
    float sum = partial[g];
    for (int32_t m = g + 1; m < g + group; ++m) sum += partial[m];
    total = g == 0 ? sum : total + sum;
  }
  return rounded_to(total, reduction.round_to);
}

/// Returns the sums over members of arrays whose records begin at their first elements. Of addends in
/// records, each is encoded and decoded, and so is the sum of each subgroup if there are several of several
/// members.
inline std::vector<float> reference_sums(std::vector<std::vector<float>> in,
                                         const comm::Reduction& reduction) {
  comm::Reduction r = reduction;
  if (is_int_block(r.wire)) {
    for (std::vector<float>& addends : in) addends = kernels::through_blocks(r.wire, addends);
    const auto group = static_cast<size_t>(r.sum_group);
    if (group > 1 && group < in.size()) {
      std::vector<std::vector<float>> of_groups;
      for (size_t m = 0; m < in.size(); m += group) {
        std::vector<float> sum = in[m];
        for (size_t k = m + 1; k < m + group; ++k)
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += in[k][i];
        of_groups.push_back(kernels::through_blocks(r.wire, sum));
      }
      in = of_groups, r.sum_group = 0;
    }
    r.wire = DType::kF32;
  }
  std::vector<float> sums(in[0].size()), addends(in.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t m = 0; m < in.size(); ++m) addends[m] = in[m][i];
    sums[i] = reference_sum(addends, r);
  }
  return sums;
}

/// True if two arrays of floats are bit-identical.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Returns member m's values of a test array: all magnitudes, both signs, the same for the same arguments.
inline std::vector<float> member_values(int64_t n, int32_t member, uint32_t seed) {
  std::mt19937 random(seed * 1000 + static_cast<uint32_t>(member));
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& x : values) x = std::ldexp(mantissa(random), static_cast<int>(random() % 20) - 10);
  return values;
}

}  // namespace hawser::testing
