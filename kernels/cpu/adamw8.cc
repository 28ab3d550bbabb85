// AdamW on moments in records (kernels/include/state_records.h), in one pass over memory, record by record.
#include "kernels/cpu/level.h"
#include "kernels/cpu/optimizer_step.h"
#include "kernels/cpu/parallel.h"
#include "kernels/include/state_records.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 256;  ///< records in a task

/// Signed codes: squares of roots.
struct First {
  static constexpr float kMost = kMostS8, kLeast = kLeastFirst;
  static HWS_INLINE float root(float absmax) { return __builtin_sqrtf(absmax); }
  static HWS_INLINE vf decode(const uint8_t* codes, vf absmax) {
    const vf c = vload_i8(codes);
    return vmul(vmul(vmul(c, vabs(c)), vset(kPerSquareS8)), absmax);
  }
  static HWS_INLINE vf scaled_root(vf x, vf factor) { return vcopysign(vmul(vsqrt(vabs(x)), factor), x); }
};

/// Unsigned codes: fourth powers of roots. Only 0 has code 0.
struct Second {
  static constexpr float kMost = kMostU8, kLeast = kLeastSecond;
  static HWS_INLINE float root(float absmax) { return __builtin_sqrtf(__builtin_sqrtf(absmax)); }
  static HWS_INLINE vf decode(const uint8_t* codes, vf absmax) {
    const vf byte = vload_i8(codes);
    const vf c = vselect_lt(byte, vzero(), vadd(byte, vset(256.0f)), byte);
    const vf square = vmul(vmul(c, c), vset(kPerSquareU8));
    return vmul(vmul(square, square), absmax);
  }
  static HWS_INLINE vf scaled_root(vf x, vf factor) {
    const vf least = vselect_lt(vzero(), x, vset(1.0f), vzero());
    return vmax(vmul(vsqrt(vsqrt(x)), factor), least);
  }
};

/// Prefetch distance in bytes. Without prefetching, a core that encodes has too few reads in flight.
constexpr int64_t kAhead = 2048;

/// Prefetches the bytes that lie kAhead after p. `write`: 1 for memory that will be written, otherwise 0.
template <int write>
HWS_INLINE void prefetch_bytes(const void* p, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64)
    __builtin_prefetch(static_cast<const char*>(p) + kAhead + at, write);
}

HWS_INLINE vf absmax_of(const uint8_t* record) {
  float absmax;
  __builtin_memcpy(&absmax, record + kStateBlock, sizeof(absmax));
  return vset(absmax);
}

/// Encodes x[0..64), of which the lanes of `most` have the largest magnitudes.
template <class Codes>
HWS_INLINE void encode(uint8_t* record, const float* x, vf most) {
  const auto bits = static_cast<uint32_t>(vhmax_bits(most));
  float absmax = bits_float(bits);
  if (bits > 0 && absmax < Codes::kLeast) absmax = Codes::kLeast;
  const bool finite = bits < 0x7f800000u;
  if (!finite) absmax = bits_float(0x7fc00000u);
  __builtin_memcpy(record + kStateBlock, &absmax, sizeof(absmax));
  if (bits == 0 || !finite) {
    __builtin_memset(record, 0, kStateBlock);
    return;
  }
  const vf factor = vset(Codes::kMost / Codes::root(absmax));
  // A sum with this number rounds to an integer, which is then in its low bits.
  const vf to_integer = vset(12582912.0f);
  for (int i = 0; i < kStateBlock; i += kLanes)
    vstore_i8(record + i, vadd(Codes::scaled_root(vload(x + i), factor), to_integer));
}

/// The learning rate and decay of each element of a record.
class Settings {
 public:
  Settings(const AdamW8& a, int64_t element) : a_(a), run_(a.runs) {
    while (run_->end <= element) ++run_;
  }

  /// Proceeds to the record that begins with this element.
  HWS_INLINE void proceed(int64_t element) {
    if (uniform_ && element + kStateBlock <= run_->end) return;
    for (int i = 0; i < kStateBlock;) {
      while (run_->end <= element + i) ++run_;
      const int64_t rest = run_->end - element;
      const int stop = rest < kStateBlock ? static_cast<int>(rest) : static_cast<int>(kStateBlock);
      fill(i, stop);
      uniform_ = i == 0 && stop == kStateBlock;
      i = stop;
    }
  }

  HWS_INLINE vf lr(int i) const { return vload(lr_ + i); }
  HWS_INLINE vf decay(int i) const { return vload(decay_ + i); }

 private:
  void fill(int begin, int end) {
    const float lr = a_.scalars->lr * run_->rate;
    for (int i = begin; i < end; ++i) lr_[i] = lr, decay_[i] = lr * run_->weight_decay;
  }
  const AdamW8& a_;
  const SettingsRun* run_;
  bool uniform_ = false;  // all elements of the record have the settings of run_
  float lr_[kStateBlock], decay_[kStateBlock];
};

/// Arguments for AdamWConstants. step() then sets lr and decay for each element, so their values here are
/// unused.
struct OneRun {
  const OptimizerScalars* scalars;
  float beta1, beta2, eps, weight_decay = 0, rate = 1;
};

template <class Copy>
void step(const AdamW8& a, int64_t begin, int64_t end) {
  AdamWConstants c(OneRun{a.scalars, a.beta1, a.beta2, a.eps});
  Settings settings(a, a.first + begin * kStateBlock);
  for (int64_t block = begin; block < end; ++block) {
    const int64_t at = block * kStateBlock;
    settings.proceed(a.first + at);
    uint8_t* const m_record = static_cast<uint8_t*>(a.m) + block * kStateRecord;
    uint8_t* const v_record = static_cast<uint8_t*>(a.v) + block * kStateRecord;
    prefetch_bytes<1>(a.weight + at, kStateBlock * 4);
    prefetch_bytes<0>(a.grad + at, kStateBlock * 4);
    prefetch_bytes<1>(m_record, kStateRecord - 4);
    prefetch_bytes<1>(v_record, kStateRecord - 4);
    if constexpr (!__is_same(Copy, float))
      prefetch_bytes<1>(static_cast<Copy*>(a.copy) + at, kStateBlock * static_cast<int64_t>(sizeof(Copy)));
    const vf m_absmax = absmax_of(m_record), v_absmax = absmax_of(v_record);
    float ms[kStateBlock], vs[kStateBlock];
    vf m_most = vzero(), v_most = vzero();
    for (int i = 0; i < kStateBlock; i += kLanes) {
      vf m = First::decode(m_record + i, m_absmax), v = Second::decode(v_record + i, v_absmax);
      vf w = vload(a.weight + at + i);
      c.lr = settings.lr(i), c.decay = settings.decay(i);
      adamw_step(c, vload(a.grad + at + i), w, m, v);
      vstore(a.weight + at + i, w);
      if constexpr (!__is_same(Copy, float)) store(static_cast<Copy*>(a.copy) + at + i, w);
      vstore(ms + i, m), vstore(vs + i, v);
      m_most = vmax_bits(m_most, vabs(m)), v_most = vmax_bits(v_most, vabs(v));
    }
    encode<First>(m_record, ms, m_most);
    encode<Second>(v_record, vs, v_most);
  }
}

}  // namespace

void adamw8(const AdamW8& args, Stream& stream) {
  const DType copied_as = args.copy != nullptr ? args.copy_type : DType::kF32;
  parallel_ranges(stream, args.n / kStateBlock, kGrain, [&](int64_t begin, int64_t end) {
    with_element(copied_as, [&](auto element) { step<decltype(element)>(args, begin, end); });
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
