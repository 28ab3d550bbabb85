#include "engine/checkpoint/hf/fp8_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/number_format.h"

namespace hawser::checkpoint::hf {
namespace {

/// Returns the number of a code: a sign, four bits of exponent with bias 7, and three of fraction. There are
/// no infinities, and NaN is the largest magnitude.
float e4m3_number(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const float magnitude = (code & 127) == 127 ? std::numeric_limits<float>::quiet_NaN()
                          : exponent == 0     ? std::ldexp(static_cast<float>(fraction), -9)
                                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (code & 128) != 0 ? -magnitude : magnitude;
}

const std::array<float, 256>& e4m3_numbers() {
  static const auto numbers = [] {
    std::array<float, 256> all;
    for (int code = 0; code < 256; ++code) all[static_cast<size_t>(code)] = e4m3_number(code);
    return all;
  }();
  return numbers;
}

int64_t blocks(int64_t extent) { return (extent + kFp8Block - 1) / kFp8Block; }

}  // namespace

bool Fp8Tensor::is_one(const WeightFiles& files, const std::string& name) {
  const auto found = files.tensors.find(name);
  return found != files.tensors.end() && found->second.info->dtype == "F8_E4M3";
}

Fp8Tensor::Fp8Tensor(const WeightFiles& files, const std::string& name)
    : files_(files), name_(name), codes_(files.tensors.at(name)) {
  const auto found = files.tensors.find(scales_name());
  if (found == files.tensors.end())
    refuse(fmt::format("needs the tensor {}, which is missing", scales_name()));
  scales_ = found->second;
  const TensorInfo& scales = *scales_.info;
  if (shape().size() != 2) refuse(fmt::format("is {}, not a matrix", shape_text(shape())));
  const std::vector<int64_t> want = {blocks(shape()[0]), blocks(shape()[1])};
  if (scales.shape != want)
    refuse(fmt::format("is {} and has scales of shape {}, not {}: one for each 128 x 128 numbers",
                       shape_text(shape()), shape_text(scales.shape), shape_text(want)));
  if (scales.dtype != "F32" && scales.dtype != "BF16")
    refuse(fmt::format("has scales in {}, not in F32 or BF16", scales.dtype));
  block_columns_ = want[1];
}

void Fp8Tensor::refuse(const std::string& what) const {
  fail(Code::kCheckpointIncompatible, "{}: {}, which is stored in fp8, {}", files_.file_of(codes_).path(),
       name_, what);
}

std::vector<float> Fp8Tensor::read_scales() const {
  const TensorInfo& info = *scales_.info;
  const DType type = *dtype_from_name(info.dtype);
  std::vector<char> bytes(static_cast<size_t>(info.bytes()));
  files_.file_of(scales_).read(info, 0, bytes.data(), info.bytes());
  std::vector<float> scales(bytes.size() / static_cast<size_t>(dtype_bytes(type)));
  widen(type, bytes.data(), std::ssize(scales), scales.data());
  const auto bad = std::find_if(scales.begin(), scales.end(), [](float s) { return !std::isfinite(s); });
  if (bad != scales.end())
    refuse(fmt::format("has {} at index {} of {}; the file is damaged: download it again",
                       std::isnan(*bad) ? "NaN" : "an infinite number", bad - scales.begin(), scales_name()));
  return scales;
}

void Fp8Tensor::read(const Binding& binding, const ParameterSink& sink, Digest* digest) const {
  const std::array<float, 256>& numbers = e4m3_numbers();
  const std::vector<float> scales = read_scales();
  const int64_t rows = shape()[0], columns = shape()[1];
  const int64_t step = std::max<int64_t>(kTransferNumbers / columns, 1);
  std::vector<uint8_t> codes(static_cast<size_t>(std::min(step, rows) * columns));
  std::vector<float> values(codes.size());
  Placer placer(binding, sink);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t n = std::min(step, rows - first) * columns;
    files_.file_of(codes_).read(*codes_.info, first * columns, codes.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t block = (first + i / columns) / kFp8Block * block_columns_ + i % columns / kFp8Block;
      values[static_cast<size_t>(i)] =
          numbers[codes[static_cast<size_t>(i)]] * scales[static_cast<size_t>(block)];
    }
    if (digest != nullptr) digest->add(values.data(), n * int64_t{sizeof(float)});
    placer.append(values.data(), n);
  }
}

}  // namespace hawser::checkpoint::hf
