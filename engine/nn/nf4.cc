#include "engine/nn/nf4.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/on_all_cores.h"

namespace hawser::nn {
namespace {

constexpr std::array<float, 16> kValueOfCode = {
    -0x1p0f,         -0x1.647362p-1f, -0x1.0cd66p-1f,  -0x1.94654p-2f,
    -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0.0f,
    0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
    0x1.c3497p-2f,   0x1.200f56p-1f,  0x1.722766p-1f,  0x1p0f};

constexpr uint8_t kZero = 7;   // the code of 0
constexpr uint8_t kOne = 255;  // the code of 1, of the largest absmax in a nested block

/// Returns the signed 8-bit map: for each decade from 1e-6 on, twice as many values as for the decade before,
/// each the midpoint of a part of [0.1, 1], with both signs; and 0 and 1. It is bit-identical to a table that
/// PyTorch computes with fused multiply-adds.
std::array<float, 256> dynamic_map() {
  std::array<float, 256> map{};
  size_t n = 0;
  for (int decade = 0; decade < 7; ++decade) {
    const int parts = 1 << decade;
    const float step = (1.0f - 0.1f) / static_cast<float>(parts);
    const auto scale = static_cast<float>(std::pow(10.0, decade - 6));
    const auto bound = [&](int i) {
      if (i < (parts + 1) / 2) return std::fma(step, static_cast<float>(i), 0.1f);
      return std::fma(-step, static_cast<float>(parts - i), 1.0f);
    };
    for (int i = 0; i < parts; ++i) {
      const float value = scale * ((bound(i) + bound(i + 1)) / 2);
      map[n++] = value, map[n++] = -value;
    }
  }
  map[n++] = 0, map[n++] = 1;
  std::sort(map.begin(), map.end());
  return map;
}

/// Returns the midpoints between neighbours of an ascending table. The number of midpoints below x is the
/// code of x.
template <size_t kSize>
std::array<float, kSize - 1> midpoints(const std::array<float, kSize>& table) {
  std::array<float, kSize - 1> middle{};
  for (size_t i = 0; i + 1 < kSize; ++i) middle[i] = (table[i] + table[i + 1]) / 2;
  return middle;
}

/// Divides numbers of a block by its absmax. A full block multiplies by the reciprocal instead, because its
/// rounding affects the result.
class Scaler {
 public:
  Scaler(float absmax, bool full) : by_(full ? 1 / absmax : absmax), full_(full) {}
  float operator()(float x) const { return full_ ? x * by_ : x / by_; }

 private:
  float by_;
  bool full_;
};

float mean_of(const std::vector<float>& numbers) {
  double sum = 0;
  for (const float x : numbers) sum += x;
  return numbers.empty() ? 0 : static_cast<float>(sum / static_cast<double>(numbers.size()));
}

float largest_magnitude(const float* x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
  return most;
}

/// Returns the number of midpoints below x.
uint8_t code_of(const std::array<float, 15>& middle, float x) {
  int below = 0;
  for (const float m : middle) below += m < x ? 1 : 0;
  return static_cast<uint8_t>(below);
}

/// Computes the codes of n numbers, and returns their absmax.
float quantise_block(const std::array<float, 15>& middle, const float* numbers, int64_t n, uint8_t* codes) {
  const float absmax = largest_magnitude(numbers, n);
  const Scaler scaled(absmax, n == kNf4Block);
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t code = absmax == 0 ? kZero : code_of(middle, scaled(numbers[i]));
    codes[i / 2] |= static_cast<uint8_t>(i % 2 == 0 ? code << 4 : code);
  }
  return absmax;
}

/// Returns the 8-bit code of x in [-1, 1]: the code of the nearest of 65,536 evenly spaced numbers, which
/// bitsandbytes keeps in a table.
uint8_t nested_code_of(const std::array<float, 255>& middle, float x) {
  constexpr float kSteps = 65535;
  const float step = std::floor((x + 1) * 0.5f * kSteps + 0.5f);
  const auto nearest =
      static_cast<float>(-1.0 + 2.0 * static_cast<double>(step) / static_cast<double>(kSteps));
  return static_cast<uint8_t>(std::lower_bound(middle.begin(), middle.end(), nearest) - middle.begin());
}

/// Quantises absmax, minus the offset, to 8 bits. If every difference in a block is 0, its codes are 0.
void quantise_absmax(const std::vector<float>& absmax, Nf4Tensor* t) {
  const auto middle = midpoints(t->nested_values);
  std::vector<float> left(absmax);
  for (float& a : left) a -= t->offset;
  for (size_t first = 0; first < left.size(); first += kNf4Nested) {
    const size_t end = std::min(first + kNf4Nested, left.size());
    const float most = largest_magnitude(left.data() + first, static_cast<int64_t>(end - first));
    t->nested_absmax.push_back(most);
    const Scaler scaled(most, end - first == kNf4Nested);
    for (size_t i = first; i < end; ++i)
      t->absmax.push_back(most == 0 ? uint8_t{0} : nested_code_of(middle, scaled(left[i])));
  }
}

/// Rounds x to nearest, dropping the last `dropped` bits of its significand.
float without_bits(float x, int dropped) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t half = (1u << (dropped - 1)) - 1;
  return std::bit_cast<float>((bits + half + ((bits >> dropped) & 1)) & ~((1u << dropped) - 1));
}

float rounded(float x, DType type) {
  constexpr float kSmallestNormal = 0x1p-14f,
                  kSubnormals = 0x1.8p-1f;  // its last place has the value of f16's smallest subnormal
  if (type == DType::kBf16) return without_bits(x, 16);
  if (type == DType::kF16)
    return std::abs(x) < kSmallestNormal ? (x + kSubnormals) - kSubnormals : without_bits(x, 13);
  return x;
}

/// Decodes n numbers, of which the first is in the high 4 bits of a byte.
void decode_block(const uint8_t* codes, const float* values, float absmax, DType type, int64_t n,
                  float* numbers) {
  std::array<float, 16> value;
  for (size_t i = 0; i < value.size(); ++i) value[i] = rounded(values[i] * absmax, type);
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t pair = codes[i / 2];
    numbers[i] = value[i % 2 == 0 ? pair >> 4 : pair & 15];
  }
}

}  // namespace

Nf4Tensor nf4_quantise(const float* numbers, int64_t size, std::optional<float> offset) {
  static const std::array<float, 256> map = dynamic_map();
  const std::array<float, 15> middle = midpoints(kValueOfCode);
  Nf4Tensor t;
  t.size = size, t.values = kValueOfCode, t.nested_values = map;
  t.codes.resize(static_cast<size_t>((size + 1) / 2));
  if (size % 2 != 0) t.codes.back() = kZero;
  std::vector<float> absmax(static_cast<size_t>(t.blocks()));
  constexpr int64_t kTask = 4096;  // blocks in one task
  on_all_cores(t.blocks() / kTask + 1, [&](int64_t task) {
    for (int64_t block = task * kTask; block < std::min((task + 1) * kTask, t.blocks()); ++block) {
      const int64_t first = block * kNf4Block;
      absmax[static_cast<size_t>(block)] = quantise_block(
          middle, numbers + first, std::min(kNf4Block, size - first), t.codes.data() + first / 2);
    }
  });
  t.offset = offset.value_or(mean_of(absmax));
  quantise_absmax(absmax, &t);
  return t;
}

namespace {

float absmax_of(const Nf4Tensor& t, int64_t block) {
  const auto at = static_cast<size_t>(block);
  if (t.absmax.empty()) return t.plain_absmax[at];
  return t.nested_values[t.absmax[at]] * t.nested_absmax[at / kNf4Nested] + t.offset;
}

}  // namespace

void nf4_decode(const Nf4Tensor& t, float* numbers) {
  HWS_CHECK(static_cast<int64_t>(t.codes.size()) == (t.size + 1) / 2);
  for (int64_t block = 0; block < t.blocks(); ++block) {
    const int64_t first = block * kNf4Block;
    decode_block(t.codes.data() + first / 2, t.values.data(), absmax_of(t, block), t.type,
                 std::min(kNf4Block, t.size - first), numbers + first);
  }
}

std::vector<uint8_t> nf4_records(const Nf4Tensor& t, bool nested) {
  HWS_CHECK(!nested || std::ssize(t.absmax) == t.blocks());
  std::vector<uint8_t> records(static_cast<size_t>(dtype_bytes(DType::kNf4, t.size)));
  const int64_t bytes = std::ssize(t.codes);
  for (int64_t block = 0; block < t.blocks(); ++block) {
    uint8_t* const record = records.data() + block * kNf4Record;
    const int64_t first = block * (kNf4Block / 2);
    std::copy_n(t.codes.data() + first, std::min(kNf4Block / 2, bytes - first), record);
    record[kNf4Block / 2] = nested ? t.absmax[static_cast<size_t>(block)] : kOne;
  }
  return records;
}

std::vector<float> nf4_scales(const Nf4Tensor& t, bool nested, const Nf4Share& share) {
  std::vector<float> scales = {nested ? t.offset : 0, static_cast<float>(t.type)};
  const int64_t shift = nested ? std::countr_zero(static_cast<uint64_t>(kNf4Nested)) : 0;
  for (const int64_t number : {share.first, share.run, share.stride, shift})
    scales.push_back(std::bit_cast<float>(static_cast<int32_t>(number)));
  scales.insert(scales.end(), t.values.begin(), t.values.end());
  scales.insert(scales.end(), t.nested_values.begin(), t.nested_values.end());
  if (nested) {
    scales.insert(scales.end(), t.nested_absmax.begin(), t.nested_absmax.end());
  } else {
    scales[static_cast<size_t>(kernels::Nf4Scales::kAbsmax + kOne)] = 1;
    for (int64_t block = 0; block < t.blocks(); ++block) scales.push_back(absmax_of(t, block));
  }
  HWS_CHECK(std::ssize(scales) == nf4_scales(t.size, nested));
  return scales;
}

void nf4_decode(const uint8_t* records, const float* scales, int64_t first, int64_t n, float* numbers) {
  using kernels::Nf4Scales;
  const auto type = static_cast<DType>(scales[Nf4Scales::kType]);
  const auto shift = std::bit_cast<int32_t>(scales[Nf4Scales::kShift]);
  for (int64_t i = 0; i < n; i += kNf4Block, records += kNf4Record) {
    const float largest = scales[Nf4Scales::kNested + ((first + i) / kNf4Block >> shift)];
    const float absmax =
        scales[Nf4Scales::kAbsmax + records[kNf4Block / 2]] * largest + scales[Nf4Scales::kOffset];
    decode_block(records, scales + Nf4Scales::kValues, absmax, type, std::min(kNf4Block, n - i), numbers + i);
  }
}

}  // namespace hawser::nn
