// Encodes and decodes records of fp8. The format is an argument, not a template parameter, and numbers pass
// through a buffer of f32, so that there is one encoder and one decoder for both formats and all types.
#include "kernels/include/fp8_records.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 64;  // records in a task
constexpr int kBlock = static_cast<int>(kFp8Block);

typedef uint32_t vw __attribute__((vector_size(sizeof(vf))));
typedef uint8_t vb __attribute__((vector_size(sizeof(vf) / 4)));

HWS_INLINE vw splat(uint32_t x) { return vw{} + x; }
HWS_INLINE vw choose(vw mask, vw x, vw y) { return (mask & x) | (~mask & y); }

/// Returns the bits of the largest |x| of x[0..128).
HWS_INLINE uint32_t largest_bits(const float* x) {
  vf most = vzero();
  for (int i = 0; i < kBlock; i += kLanes) most = vmax_bits(most, vabs(vload(x + i)));
  return static_cast<uint32_t>(vhmax_bits(most));
}

/// Encodes x[0..128) with the scale 2^(exponent - 127), under which all numbers must fit.
HWS_NOINLINE void encode_numbers(const Fp8Format& f, uint8_t* record, const float* x, int32_t exponent) {
  const vw largest =
      splat(static_cast<uint32_t>(exponent == f.largest_exponent ? f.code_at_largest : f.largest_code));
  const vf factor = vset(bits_float(static_cast<uint32_t>(254 - exponent) << 23));
  // With a number's own exponent E, or the least normal one of the format, 2^(E + 23 - fraction) has the unit
  // of the code as its last bit: the addition rounds, and the sum's low bits count units.
  const uint32_t least = static_cast<uint32_t>(128 - f.bias),
                 up = static_cast<uint32_t>(23 - f.fraction_bits);
#pragma GCC unroll 2
  for (int i = 0; i < kBlock; i += kLanes) {
    const vf number = vload(x + i), y = vmul(vabs(number), factor);
    const vw e = (vw)vmax_bits((vf)((vw)y & 0x7f800000u), (vf)splat(least << 23)), unit = e + (up << 23);
    vw code = (vw)vadd(y, (vf)unit) - unit + (e >> up) - (least << f.fraction_bits);
    code = choose((vw)(code < largest), code, largest);
    vstore_i8(record + i, (vf)(code | (((vw)number >> 24) & 0x80u)));
  }
  record[kBlock] = static_cast<uint8_t>(exponent);
}

/// Encodes x[0..128) with the scale that its largest number needs.
void encode_record(const Fp8Format& f, uint8_t* record, const float* x) {
  const uint32_t absmax = largest_bits(x);
  if (absmax >= 0x7f800000u) {
    for (int i = 0; i < kBlock; ++i) record[i] = kFp8Nan;
    record[kBlock] = kFp8NanExponent;
    return;
  }
  encode_numbers(f, record, x, fp8_exponent(f, absmax, 0));
}

/// Encodes x[0..128) with a given scale. Numbers that do not fit saturate, which changes x.
void encode_saturating(const Fp8Format& f, uint8_t* record, float* x, int32_t exponent) {
  const auto code =
      static_cast<uint32_t>(exponent == f.largest_exponent ? f.code_at_largest : f.largest_code);
  const uint32_t largest =
      (code << (23 - f.fraction_bits)) + (static_cast<uint32_t>(exponent - f.bias) << 23);
  uint8_t nan[kBlock] = {};
  if (largest_bits(x) > largest)
    for (int i = 0; i < kBlock; ++i) {
      const uint32_t size = float_bits(x[i]) & 0x7fffffffu;
      nan[i] = size >= 0x7f800000u ? kFp8Nan : 0;
      if (size > largest) x[i] = bits_float(largest | (float_bits(x[i]) & 0x80000000u));
    }
  encode_numbers(f, record, x, exponent);
  for (int i = 0; i < kBlock; ++i) record[i] |= nan[i];
}

/// Decodes to y[0..128).
HWS_NOINLINE void decode_record(const Fp8Format& f, float* y, const uint8_t* record) {
  const vf factor = vset(bits_float(static_cast<uint32_t>(record[kBlock]) << 23));
  const uint32_t up = static_cast<uint32_t>(23 - f.fraction_bits), bias = static_cast<uint32_t>(127 - f.bias)
                                                                          << 23;
  const vf unit = vset(bits_float(static_cast<uint32_t>(128 - f.bias - f.fraction_bits) << 23));
#pragma GCC unroll 2
  for (int i = 0; i < kBlock; i += kLanes) {
    vb bytes;
    __builtin_memcpy(&bytes, record + i, sizeof bytes);
    const vw code = __builtin_convertvector(bytes, vw), m = code & 0x7fu;
    // m as a float: its bits behind those of 2^23, less 2^23.
    const vf subnormal = vmul(vsub((vf)(m | 0x4b000000u), vset(8388608.0f)), unit);
    vw bits = choose((vw)(m < (1u << f.fraction_bits)), (vw)subnormal, (m << up) + bias);
    bits |= (vw)(m > static_cast<uint32_t>(f.largest_code)) & 0x7f800000u;
    vstore(y + i, vmul((vf)(bits | ((code & 0x80u) << 24)), factor));
  }
}

HWS_INLINE void store_numbers(float* y, const float* x, int i) { vstore(y + i, vload(x + i)); }
HWS_INLINE void store_numbers(uint16_t* y, const float* x, int i) { vstore_bf16(y + i, vload(x + i)); }
/// A number above the largest half becomes that half. NaN is not less than anything, so it stays.
HWS_INLINE void store_numbers(Half* y, const float* x, int i) {
  const vf v = vload(x + i), most = vset(65504.0f);
  vstore_f16(y + i, vselect_lt(most, vabs(v), vcopysign(most, v), v));
}

/// Records of consecutive rows.
struct Rows {
  int64_t n, records;
  explicit Rows(int64_t numbers) : n(numbers), records((numbers + kFp8Block - 1) / kFp8Block) {}
  HWS_INLINE int64_t first(int64_t record) const {
    return record / records * n + record % records * kFp8Block;
  }
  HWS_INLINE int count(int64_t record) const {
    const int64_t rest = n - record % records * kFp8Block;
    return static_cast<int>(rest < kFp8Block ? rest : kFp8Block);
  }
};

template <class T>
void encode(const Fp8Encode& a, const Rows& rows, int64_t begin, int64_t end) {
  const Fp8Format format = fp8_format(a.type);
  const int32_t given = a.maximum == nullptr ? 0 : fp8_exponent(format, float_bits(*a.maximum), a.margin);
  for (int64_t r = begin; r < end; ++r) {
    const T* const x = static_cast<const T*>(a.x) + rows.first(r);
    const int n = rows.count(r);
    float numbers[kBlock];
    if (n == kBlock) {
      for (int i = 0; i < kBlock; i += kLanes) vstore(numbers + i, load(x + i));
    } else {
      for (int i = 0; i < kBlock; ++i) numbers[i] = i < n ? load_scalar(x + i) : 0.0f;
    }
    uint8_t* const record = static_cast<uint8_t*>(a.records) + r * kFp8Record;
    if (a.maximum != nullptr) {
      encode_saturating(format, record, numbers, given);
    } else {
      encode_record(format, record, numbers);
    }
  }
}

template <class T>
void decode(const Fp8Decode& a, const Rows& rows, int64_t begin, int64_t end) {
  const Fp8Format format = fp8_format(a.type);
  for (int64_t r = begin; r < end; ++r) {
    T* const y = static_cast<T*>(a.y) + rows.first(r);
    const int n = rows.count(r);
    float numbers[kBlock];
    decode_record(format, numbers, static_cast<const uint8_t*>(a.records) + r * kFp8Record);
    T narrow[kBlock];
    T* const to = n == kBlock ? y : narrow;
    for (int i = 0; i < kBlock; i += kLanes) store_numbers(to, numbers, i);
    if (n < kBlock) __builtin_memcpy(y, narrow, static_cast<size_t>(n) * sizeof(T));
  }
}

}  // namespace

void fp8_encode(const Fp8Encode& args, Stream& stream) {
  const Rows rows(args.n);
  parallel_ranges(stream, args.rows * rows.records, kGrain, [&](int64_t begin, int64_t end) {
    with_element(args.x_type, [&](auto element) { encode<decltype(element)>(args, rows, begin, end); });
  });
}

void fp8_decode(const Fp8Decode& args, Stream& stream) {
  const Rows rows(args.n);
  parallel_ranges(stream, args.rows * rows.records, kGrain, [&](int64_t begin, int64_t end) {
    with_element(args.y_type, [&](auto element) { decode<decltype(element)>(args, rows, begin, end); });
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
