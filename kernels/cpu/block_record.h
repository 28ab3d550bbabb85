// One record of integers, encoded and decoded, for the kernels that do so. All numbers of a record are in
// vector registers at once: loops over arrays, which the compiler would vectorise, were up to a half slower
// on AVX-512.
#pragma once

#include "kernels/cpu/level.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Vectors in a record.
constexpr int kVectors = static_cast<int>(kIntBlock) / kLanes;

struct I8Codes {
  static constexpr int64_t kCodes = kIntBlock, kBytes = kI8Record;
  static constexpr float kMost = kMostI8;

  /// Stores codes that are in the low bits of the lanes.
  static HWS_INLINE void put(uint8_t* record, const vf* codes) {
    for (int v = 0; v < kVectors; ++v) vstore_i8(record + v * kLanes, codes[v]);
  }
  /// Returns the codes of vector v.
  static HWS_INLINE vf get(const uint8_t* record, int v) { return vload_i8(record + v * kLanes); }
};

struct I4Codes {
  static constexpr int64_t kCodes = kIntBlock / 2, kBytes = kI4Record;
  static constexpr float kMost = kMostI4;

  static HWS_INLINE void put(uint8_t* record, const vf* codes) {
    for (int v = 0; v < kHalf; ++v) vstore_i4(record + v * kLanes, codes[v], codes[v + kHalf]);
  }
  static HWS_INLINE vf get(const uint8_t* record, int v) {
    return v < kHalf ? vload_low4(record + v * kLanes) : vload_high4(record + (v - kHalf) * kLanes);
  }

 private:
  static constexpr int kHalf = kVectors / 2;
};

/// Encodes x[0..64), f32, bf16 or f16.
template <class Codes, class T>
HWS_INLINE void encode_record(uint8_t* record, const T* x) {
  vf numbers[kVectors], most = vzero();
  for (int v = 0; v < kVectors; ++v) {
    numbers[v] = load(x + v * kLanes);
    most = vmax_bits(most, vabs(numbers[v]));  // the bits of infinity and NaN are the largest
  }
  uint32_t absmax = (static_cast<uint32_t>(vhmax_bits(most)) + 0xffffu) >> 16;
  const bool finite = absmax < 0x7f80u;
  if (!finite) absmax = kAbsmaxNan;
  if (absmax < kLeastAbsmax) absmax = 0;
  vf codes[kVectors];
  if (finite && absmax > 0) {
    const vf factor = vset(Codes::kMost / bf16_to_f32(static_cast<uint16_t>(absmax)));
    // A sum with this number rounds to an integer, which is then in its low bits.
    const vf to_integer = vset(12582912.0f);
    for (int v = 0; v < kVectors; ++v) codes[v] = vadd(vmul(numbers[v], factor), to_integer);
  } else {
    for (int v = 0; v < kVectors; ++v) codes[v] = vzero();
  }
  Codes::put(record, codes);
  record[Codes::kCodes] = static_cast<uint8_t>(absmax);
  record[Codes::kCodes + 1] = static_cast<uint8_t>(absmax >> 8);
}

/// Decodes to y[0..64), f32, bf16 or f16.
template <class Codes, class T>
HWS_INLINE void decode_record(T* y, const uint8_t* record) {
  const auto absmax = static_cast<uint16_t>(record[Codes::kCodes] | record[Codes::kCodes + 1] << 8);
  const vf factor = vset(bf16_to_f32(absmax) / Codes::kMost);
  for (int v = 0; v < kVectors; ++v) store(y + v * kLanes, vmul(Codes::get(record, v), factor));
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
