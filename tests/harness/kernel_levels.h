// The kernel tables that were built and that this machine can run, and values to test them with.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "engine/base/dtype.h"
#include "kernels/include/levels.h"
#include "kernels/include/table.h"

namespace hawser::testing {

/// Returns the tables in ascending order, each once.
inline std::vector<const kernels::KernelTable*> kernel_tables() {
  std::vector<const kernels::KernelTable*> tables;
  for (int32_t i = 0; i < kernels::kCpuLevels; ++i) {
    if (!kernels::has_cpu_level(static_cast<kernels::CpuLevel>(i))) continue;
    const kernels::KernelTable* table = &kernels::cpu_kernels(static_cast<kernels::CpuLevel>(i));
    if (tables.empty() || tables.back() != table) tables.push_back(table);
  }
  return tables;
}

inline float from_bf16(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Rounds to nearest even by comparing the two neighbours, which is not how the kernels do it.
inline uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  const auto low = static_cast<uint16_t>(bits >> 16);
  if (x != x) return static_cast<uint16_t>(low | 0x40u);
  const uint32_t rest = bits & 0xffffu;
  const bool up = rest > 0x8000u || (rest == 0x8000u && (low & 1u) != 0);
  return static_cast<uint16_t>(low + (up ? 1 : 0));
}

/// Values of f32 or bf16, together with their exact values in double.
class TypedValues {
 public:
  TypedValues(DType type, int64_t count)
      : type_(type), bytes_(static_cast<size_t>(count * dtype_bytes(type))) {
    values.assign(static_cast<size_t>(count), 0.0);
  }
  /// Sets element i to x, rounded to the type.
  void set(int64_t i, float x) {
    if (type_ == DType::kF32) {
      std::memcpy(bytes_.data() + 4 * i, &x, 4);
      values[static_cast<size_t>(i)] = x;
    } else {
      const uint16_t rounded = to_bf16(x);
      std::memcpy(bytes_.data() + 2 * i, &rounded, 2);
      values[static_cast<size_t>(i)] = from_bf16(rounded);
    }
  }
  void fill(std::mt19937& random, float scale = 1.0f) {
    std::uniform_real_distribution<float> uniform(-scale, scale);
    for (size_t i = 0; i < values.size(); ++i) set(static_cast<int64_t>(i), uniform(random));
  }
  DType type() const { return type_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }

  std::vector<double> values;

 private:
  DType type_;
  std::vector<uint8_t> bytes_;
};

/// Returns element i of memory that holds f32 or bf16.
inline double typed_value(const void* data, DType type, int64_t i) {
  if (type == DType::kF32) return static_cast<const float*>(data)[i];
  return from_bf16(static_cast<const uint16_t*>(data)[i]);
}

}  // namespace hawser::testing
