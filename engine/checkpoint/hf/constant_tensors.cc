#include "engine/checkpoint/hf/constant_tensors.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/number_format.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint::hf {
namespace {

using Kind = RecordedTensor::Kind;

/// True if `name` consists of prefix, digits and suffix.
bool matches(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size() || name.substr(0, prefix.size()) != prefix) return false;
  if (name.substr(name.size() - suffix.size()) != suffix) return false;
  const std::string_view middle = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  return middle.find_first_not_of("0123456789") == std::string_view::npos;
}

[[noreturn]] void refuse(const SafetensorsFile& file, const TensorInfo& info, const std::string& why) {
  fail(Code::kCheckpointIncompatible, "{}: the buffer {} ({} {}) {}", file.path(), in_quotes(info.name),
       info.dtype, shape_text(info.shape), why);
}

RecordedTensor check_mask(const SafetensorsFile& file, const TensorInfo& info) {
  const std::vector<int64_t>& shape = info.shape;
  if (shape.size() != 4 || shape[0] != 1 || shape[1] != 1 || shape[2] != shape[3])
    refuse(file, info, "is not a causal mask: its shape is not [1, 1, n, n]");
  std::string expected, row(static_cast<size_t>(shape[2] > 0 ? info.bytes() / shape[2] : 0), '\0');
  for (int64_t i = 0; i < shape[2]; ++i) {
    if (!causal_mask_row(info.dtype, shape[2], i, &expected))
      refuse(file, info, "is not a causal mask: it has another dtype");
    file.read(info, i * static_cast<int64_t>(row.size()), row.data(), static_cast<int64_t>(row.size()));
    if (row != expected)
      refuse(file, info, fmt::format("is not a causal mask: row {} is not ones up to the diagonal", i));
  }
  return {info.name, info.dtype, Kind::kCausalMask, shape, ""};
}

/// Returns all values of a small tensor of numbers, and its bytes in *bytes.
std::vector<float> read_small(const SafetensorsFile& file, const TensorInfo& info, int64_t count,
                              std::string* bytes) {
  const std::optional<DType> dtype = dtype_from_name(info.dtype);
  if (!dtype || !is_weight_dtype(*dtype)) refuse(file, info, "has a dtype that is not F32, BF16 or F16");
  if (info.bytes() != count * dtype_bytes(*dtype))
    refuse(file, info, fmt::format("does not have {} elements", count));
  bytes->resize(static_cast<size_t>(info.bytes()));
  file.read(info, 0, bytes->data(), info.bytes());
  std::vector<float> values(static_cast<size_t>(count));
  widen(*dtype, bytes->data(), count, values.data());
  return values;
}

RecordedTensor check_mask_value(const SafetensorsFile& file, const TensorInfo& info) {
  RecordedTensor tensor{info.name, info.dtype, Kind::kBytes, info.shape, ""};
  const float value = read_small(file, info, 1, &tensor.bytes)[0];
  if (!(value <= -9000.0f)) refuse(file, info, fmt::format("is {}, not a large negative mask value", value));
  return tensor;
}

RecordedTensor check_frequencies(const SafetensorsFile& file, const TensorInfo& info,
                                 const nn::ModelConfig& model) {
  RecordedTensor tensor{info.name, info.dtype, Kind::kBytes, info.shape, ""};
  const int64_t half = model.rope_dim() / 2;
  const std::vector<float> values = read_small(file, info, half, &tensor.bytes);
  const double tolerance = info.dtype == "F32" ? 1e-5 : 1e-2;
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(model.rope_dim());
    const double expected = std::pow(model.rope.theta, -exponent), value = values[static_cast<size_t>(i)];
    const bool plain = std::abs(value - expected) <= tolerance * expected + 1e-7;
    const bool stretched = model.rope.scaling == nn::RopeScaling::kLinear &&
                           std::abs(value * model.rope.factor - expected) <= tolerance * expected + 1e-7;
    if (!plain && !stretched)
      refuse(file, info, fmt::format("has {} at {}, but config.json implies {}", value, i, expected));
  }
  return tensor;
}

}  // namespace

std::optional<RecordedTensor> recognise_constant(const std::string& family, const std::string& name,
                                                 const SafetensorsFile& file, const TensorInfo& info,
                                                 const nn::ModelConfig& model) {
  if (family == "gpt2") {
    if (matches(name, "h.", ".attn.bias")) return check_mask(file, info);
    if (matches(name, "h.", ".attn.masked_bias")) return check_mask_value(file, info);
    return std::nullopt;
  }
  if (name == "rotary_emb.inv_freq" || matches(name, "layers.", ".self_attn.rotary_emb.inv_freq"))
    return check_frequencies(file, info, model);
  return std::nullopt;
}

bool causal_mask_row(const std::string& dtype, int64_t n, int64_t row, std::string* dst) {
  std::string one;
  if (dtype == "BOOL" || dtype == "U8" || dtype == "I8") {
    one = std::string(1, '\1');
  } else {
    const std::optional<DType> type = dtype_from_name(dtype);
    if (!type || !is_weight_dtype(*type)) return false;
    one.resize(static_cast<size_t>(dtype_bytes(*type)));
    const float value = 1.0f;
    narrow(*type, &value, 1, one.data());
  }
  dst->assign(one.size() * static_cast<size_t>(n), '\0');
  for (int64_t column = 0; column <= row; ++column)
    dst->replace(one.size() * static_cast<size_t>(column), one.size(), one);
  return true;
}

}  // namespace hawser::checkpoint::hf
