// Fp8Stored: a matrix in fp8 with one scale for each block of 128 x 128 numbers (DeepSeek-V3,
// arXiv:2412.19437, section 3.3). `X.weight` holds E4M3 codes, and `X.weight_scale_inv` holds the scales,
// [ceil(rows / 128), ceil(columns / 128)] in F32 or BF16. A number is the value of its code times the scale
// of its block, rounded to f32.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/number_format.h"
#include "engine/checkpoint/hf/quantised.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr const char* kScaleInv = "_scale_inv";
constexpr int64_t kFp8Block = 128;

/// Returns the value of an E4M3 code: a sign bit, four exponent bits with bias 7, and three fraction bits.
/// There are no infinities; in a NaN, all exponent and fraction bits are set.
float e4m3_number(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const float magnitude = (code & 127) == 127 ? std::numeric_limits<float>::quiet_NaN()
                          : exponent == 0     ? std::ldexp(static_cast<float>(fraction), -9)
                                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (code & 128) != 0 ? -magnitude : magnitude;
}

std::array<float, 256> e4m3_numbers() {
  std::array<float, 256> all{};
  for (int code = 0; code < 256; ++code) all[static_cast<size_t>(code)] = e4m3_number(code);
  return all;
}

int64_t fp8_blocks(int64_t extent) { return (extent + kFp8Block - 1) / kFp8Block; }

class Fp8Stored : public QuantisedTensor {
 public:
  Fp8Stored(const WeightFiles& files, const std::string& name) : QuantisedTensor(files, name, "fp8", name) {
    shape_ = files.tensors.at(name).info->shape;
    if (shape_.size() != 2) refuse(fmt::format("is {}, not a matrix", shape_text(shape_)));
    const std::vector<int64_t> blocks = {fp8_blocks(shape_[0]), fp8_blocks(shape_[1])};
    const auto found = files.tensors.find(name + kScaleInv);
    scale_type_ =
        found != files.tensors.end() && found->second.info->dtype == "BF16" ? DType::kBf16 : DType::kF32;
    const TensorInfo& scales = part(kScaleInv, dtype_name(scale_type_), blocks[0] * blocks[1]);
    if (scales.shape != blocks)
      refuse(fmt::format("has {} of the shape {}, not {}: one scale for each 128 x 128 numbers", scales.name,
                         shape_text(scales.shape), shape_text(blocks)));
    type_ = DType::kBf16;  // the type of an export, which rounds the products
  }

  bool read(const Binding& binding, const ParameterSink& sink, const Nf4Sink* /*nf4*/,
            Digest* digest) const override {
    static const std::array<float, 256> kNumbers = e4m3_numbers();
    const std::vector<float> scales = read_scales();
    const int64_t rows = shape_[0], columns = shape_[1], across = fp8_blocks(columns);
    const int64_t most = std::max<int64_t>(kTransferNumbers / columns, 1);
    std::vector<uint8_t> codes;
    std::vector<float> numbers;
    Placer placer(binding, sink);
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t n = std::min(most, rows - first) * columns;
      codes.resize(static_cast<size_t>(n)), numbers.resize(static_cast<size_t>(n));
      read_part("", first * columns, codes.data(), n);
      for (size_t i = 0; i < codes.size();) {
        const int64_t row = first + static_cast<int64_t>(i) / columns;
        const float* const of_row = scales.data() + row / kFp8Block * across;
        for (int64_t column = 0; column < columns; ++column, ++i)
          numbers[i] = kNumbers[codes[i]] * of_row[column / kFp8Block];
      }
      placer.append(numbers.data(), n);
      if (digest != nullptr) digest->add(numbers.data(), n * int64_t{sizeof(float)});
    }
    return false;
  }

 private:
  std::vector<float> read_scales() const {
    std::vector<float> scales(static_cast<size_t>(fp8_blocks(shape_[0]) * fp8_blocks(shape_[1])));
    std::vector<char> bytes(scales.size() * static_cast<size_t>(dtype_bytes(scale_type_)));
    read_part(kScaleInv, 0, bytes.data(), std::ssize(bytes));
    widen(scale_type_, bytes.data(), std::ssize(scales), scales.data());
    require_finite(kScaleInv, scales);
    return scales;
  }

  DType scale_type_ = DType::kF32;
};

}  // namespace

bool is_fp8(const WeightFiles& files, const std::string& name) {
  const auto found = files.tensors.find(name);
  return found != files.tensors.end() && found->second.info->dtype == "F8_E4M3";
}

std::unique_ptr<QuantisedTensor> open_fp8(const WeightFiles& files, const std::string& name) {
  return std::make_unique<Fp8Stored>(files, name);
}

}  // namespace hawser::checkpoint::hf
