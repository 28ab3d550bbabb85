// Decodes NF4: for each record, it computes the 16 values that its codes can stand for once, and then looks
// them up.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::baseline {
namespace {

constexpr int64_t kGrain = 512;  // records in a task

/// Returns x rounded to `type`.
float rounded(float x, DType type) {
  return with_element(type, [&](auto element) { return through_scalar<decltype(element)>(x); });
}

/// Returns the integer that is stored in the bits of a scale.
int64_t whole(float bits) { return __builtin_bit_cast(int32_t, bits); }

template <class T>
void decode(const Nf4Decode& a, int64_t begin, int64_t end) {
  const auto type = static_cast<DType>(a.scales[Nf4Scales::kType]);
  const float* const values = a.scales + Nf4Scales::kValues;
  const int64_t first = whole(a.scales[Nf4Scales::kFirst]), run = whole(a.scales[Nf4Scales::kRun]),
                stride = whole(a.scales[Nf4Scales::kStride]), shift = whole(a.scales[Nf4Scales::kShift]);
  int64_t row = begin / run, in_run = begin % run;
  for (int64_t block = begin; block < end; ++block) {
    const uint8_t* const record = static_cast<const uint8_t*>(a.records) + block * kNf4Record;
    const int64_t in_tensor = first + row * stride + in_run;
    if (++in_run == run) in_run = 0, ++row;
    const float largest = a.scales[Nf4Scales::kNested + (in_tensor >> shift)];
    const float part = a.scales[Nf4Scales::kAbsmax + record[kNf4Block / 2]] * largest;
    const float absmax = part + a.scales[Nf4Scales::kOffset];
    T value[16];
    for (int i = 0; i < 16; ++i) store_scalar(value + i, rounded(values[i] * absmax, type));
    T* const y = static_cast<T*>(a.y) + block * kNf4Block;
    const int64_t n = a.n - block * kNf4Block < kNf4Block ? a.n - block * kNf4Block : kNf4Block;
    for (int64_t i = 0; i + 1 < n; i += 2)
      y[i] = value[record[i / 2] >> 4], y[i + 1] = value[record[i / 2] & 15];
    if (n % 2 != 0) y[n - 1] = value[record[n / 2] >> 4];
  }
}

}  // namespace

void nf4_decode(const Nf4Decode& args, Stream& stream) {
  const int64_t records = (args.n + kNf4Block - 1) / kNf4Block;
  parallel_ranges(stream, records, kGrain, [&](int64_t begin, int64_t end) {
    with_element(args.y_type, [&](auto element) { decode<decltype(element)>(args, begin, end); });
  });
}

}  // namespace hawser::kernels::baseline
