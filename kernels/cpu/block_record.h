// One record of integers, encoded and decoded, for the kernels that do so. The loops have a fixed number of
// steps and no branches, so that the compiler vectorises them at every level.
#pragma once

#include "kernels/cpu/level.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

struct I8Codes {
  static constexpr int64_t kCodes = kIntBlock, kBytes = kI8Record;
  static constexpr float kMost = kMostI8;

  static HWS_INLINE void put(uint8_t* record, const int8_t* code) {
    for (int i = 0; i < kIntBlock; ++i) record[i] = static_cast<uint8_t>(code[i]);
  }
  static HWS_INLINE void get(int8_t* code, const uint8_t* record) {
    for (int i = 0; i < kIntBlock; ++i) code[i] = static_cast<int8_t>(record[i]);
  }
};

struct I4Codes {
  static constexpr int64_t kCodes = kIntBlock / 2, kBytes = kI4Record;
  static constexpr float kMost = kMostI4;

  static HWS_INLINE void put(uint8_t* record, const int8_t* code) {
    for (int i = 0; i < kIntBlock / 2; ++i)
      record[i] = static_cast<uint8_t>((code[i] & 15) | (code[i + kIntBlock / 2] & 15) << 4);
  }
  static HWS_INLINE void get(int8_t* code, const uint8_t* record) {
    for (int i = 0; i < kIntBlock / 2; ++i) {
      const auto low = static_cast<uint8_t>(record[i] & 15);
      code[i] = static_cast<int8_t>((low ^ 8) - 8);  // the sign of four bits
      const auto high = static_cast<uint8_t>(record[i] >> 4);
      code[i + kIntBlock / 2] = static_cast<int8_t>((high ^ 8) - 8);
    }
  }
};

/// Encodes x[0..64).
template <class Codes>
HWS_INLINE void encode_record(uint8_t* record, const float* x) {
  int32_t most = 0;  // magnitudes are ordered as their bits; those of infinity and NaN are the largest
  for (int i = 0; i < kIntBlock; ++i) {
    const int32_t bits = __builtin_bit_cast(int32_t, x[i]) & 0x7fffffff;
    most = bits > most ? bits : most;
  }
  uint32_t absmax = (static_cast<uint32_t>(most) + 0xffffu) >> 16;
  const bool finite = absmax < 0x7f80u;
  if (!finite) absmax = kAbsmaxNan;
  if (absmax < kLeastAbsmax) absmax = 0;
  int8_t code[kIntBlock] = {};
  if (finite && absmax > 0) {
    const float factor = Codes::kMost / bf16_to_f32(static_cast<uint16_t>(absmax));
    // A sum with this number rounds to an integer, which is then in its low bits.
    constexpr float kToInteger = 12582912.0f;
    for (int i = 0; i < kIntBlock; ++i) {
      const float shifted = x[i] * factor + kToInteger;
      code[i] = static_cast<int8_t>(__builtin_bit_cast(int32_t, shifted));
    }
  }
  Codes::put(record, code);
  record[Codes::kCodes] = static_cast<uint8_t>(absmax);
  record[Codes::kCodes + 1] = static_cast<uint8_t>(absmax >> 8);
}

/// Decodes to y[0..64).
template <class Codes>
HWS_INLINE void decode_record(float* y, const uint8_t* record) {
  const auto absmax = static_cast<uint16_t>(record[Codes::kCodes] | record[Codes::kCodes + 1] << 8);
  const float factor = bf16_to_f32(absmax) / Codes::kMost;
  int8_t code[kIntBlock];
  Codes::get(code, record);
  for (int i = 0; i < kIntBlock; ++i) y[i] = static_cast<float>(code[i]) * factor;
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
