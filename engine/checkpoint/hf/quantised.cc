#include "engine/checkpoint/hf/quantised.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/nn/nf4.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr const char* kState = ".quant_state.bitsandbytes__nf4";
constexpr int64_t kMaxStateBytes = 4096;

}  // namespace

void read_quantisation(ConfigFields* config) {
  constexpr const char* kKey = "quantization_config";
  config->accept(kKey);
  if (!config->has(kKey) || config->is_null(kKey) || config->value_text(kKey) == "{}") return;
  const std::string all = config->value_text(kKey);
  if (!config->is_object(kKey))
    return config->problem(kKey, fmt::format("is {}, which is not supported", all));
  ConfigFields fields = config->object(kKey);
  const std::string method = fields.text("quant_method", "");
  const std::string type = fields.text("bnb_4bit_quant_type", "fp4");
  if (method.empty()) return config->problem(kKey, fmt::format("is {}, which is not supported", all));
  if (method != "bitsandbytes")
    return config->problem(
        kKey,
        fmt::format("has quant_method \"{}\", which is not supported; only bitsandbytes' nf4 is", method));
  if (!fields.flag("load_in_4bit", false) || fields.flag("load_in_8bit", false))
    return config->problem(kKey, "is bitsandbytes in 8 bits; of its types only nf4 is supported");
  if (type != "nf4")
    config->problem(kKey, fmt::format("has bnb_4bit_quant_type \"{}\"; only \"nf4\" is supported", type));
}

std::string without_quantisation(const std::string& config_json_text) {
  OrderedJson config = parse_json<OrderedJson>(config_json_text);
  if (config.erase("quantization_config") == 0) return config_json_text;
  return config.dump(2) + "\n";
}

bool has_plain_absmax(const std::string& config_json_text) {
  const Json config = parse_json<Json>(config_json_text);
  const auto found = config.find("quantization_config");
  return found != config.end() && found->is_object() && found->value("load_in_4bit", false) &&
         !found->value("bnb_4bit_use_double_quant", false);
}

bool QuantisedTensor::is_one(const WeightFiles& files, const std::string& name) {
  return files.tensors.count(name + kState) != 0;
}

QuantisedTensor::QuantisedTensor(const WeightFiles& files, const std::string& name)
    : files_(files), name_(name) {
  read_state();
  const int64_t blocks = (size_ + kNf4Block - 1) / kNf4Block;
  part("", "U8", (size_ + 1) / 2);
  part(".absmax", nested_ ? "U8" : "F32", blocks);
  part(".quant_map", "F32", 16);
  if (nested_) {
    part(".nested_absmax", "F32", (blocks + nn::kNf4Nested - 1) / nn::kNf4Nested);
    part(".nested_quant_map", "F32", 256);
  }
}

void QuantisedTensor::refuse(const std::string& what) const {
  fail(Code::kCheckpointIncompatible, "{}: {}, which is quantised to nf4, {}", files_.names.front(), name_,
       what);
}

const TensorInfo& QuantisedTensor::part(const std::string& suffix, const char* dtype, int64_t count) {
  const auto found = files_.tensors.find(name_ + suffix);
  if (found == files_.tensors.end())
    refuse(fmt::format("needs the tensor {}{}, which is missing", name_, suffix));
  const TensorInfo& info = *found->second.info;
  int64_t elements = 1;
  for (const int64_t extent : info.shape) elements *= extent;
  if (info.dtype != dtype || elements != count)
    refuse(fmt::format("has {}{} as {} {}, not {} numbers of {}", name_, suffix, info.dtype,
                       shape_text(info.shape), count, dtype));
  if (!suffix.empty()) companions_.push_back(name_ + suffix);
  return info;
}

void QuantisedTensor::read_state() {
  const WeightFiles::TensorLocation& place = files_.tensors.at(name_ + kState);
  const int64_t bytes = place.info->bytes();
  if (place.info->dtype != "U8" || bytes > kMaxStateBytes) refuse("has no readable quant_state");
  std::string text(static_cast<size_t>(bytes), '\0');
  files_.file_of(place).read(*place.info, 0, text.data(), bytes);
  companions_.push_back(name_ + kState);
  ConfigFields state(text);
  const std::string type = state.text("quant_type", ""), dtype = state.text("dtype", "");
  if (type != "nf4" || state.integer("blocksize", 0) != kNf4Block)
    refuse(fmt::format("has the quant_state {}; supported is nf4 in blocks of 64", text));
  if (dtype != "float32" && dtype != "bfloat16" && dtype != "float16")
    refuse(fmt::format("was quantised from {}, not float32, bfloat16 or float16", dtype));
  type_ = dtype == "float32" ? DType::kF32 : dtype == "bfloat16" ? DType::kBf16 : DType::kF16;
  shape_ = state.integers("shape");
  nested_ = state.has("nested_offset");
  if (nested_) {
    if (state.integer("nested_blocksize", 0) != nn::kNf4Nested || state.text("nested_dtype", "") != "float32")
      refuse(fmt::format("has the quant_state {}; supported are nested blocks of 256 in float32", text));
    if (state.is_null("nested_offset"))
      refuse(
          "has a quant_state whose nested_offset is null; its absmax cannot be computed without that number");
    offset_ = static_cast<float>(state.number("nested_offset", 0, -1e30));
  }
  if (!state.problems().empty() || shape_.size() != 2) refuse(fmt::format("has the quant_state {}", text));
  for (const int64_t extent : shape_) {
    if (extent < 1 || extent > INT32_MAX) refuse(fmt::format("has the shape {}", shape_text(shape_)));
    size_ *= extent;
  }
}

template <typename T>
void QuantisedTensor::fill(const std::string& suffix, T* values, int64_t count) const {
  const WeightFiles::TensorLocation& place = files_.tensors.at(name_ + suffix);
  files_.file_of(place).read(*place.info, 0, values, count * static_cast<int64_t>(sizeof(T)));
}

void QuantisedTensor::require_finite(const std::string& suffix, std::span<const float> values) const {
  const auto found = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  if (found == values.end()) return;
  refuse(fmt::format("has {} at index {} of {}{}; the file is damaged: download it again",
                     std::isnan(*found) ? "NaN" : "an infinite number", found - values.begin(), name_,
                     suffix));
}

void QuantisedTensor::require_nested(bool nested) const {
  if (nested_ == nested) return;
  refuse(fmt::format("has absmax in {}, but config.json says bnb_4bit_use_double_quant {}; set it to {}",
                     nested_ ? "8 bits" : "f32", nested, nested_));
}

void QuantisedTensor::read(const Binding& binding, const ParameterSink& sink, const Nf4Sink* nf4,
                           Digest* digest) const {
  nn::Nf4Tensor t;
  t.size = size_, t.offset = offset_, t.type = type_;
  const auto whole = [&](const std::string& suffix, auto* values, int64_t count) {
    values->resize(static_cast<size_t>(count));
    fill(suffix, values->data(), count);
  };
  whole("", &t.codes, (size_ + 1) / 2);
  fill(".quant_map", t.values.data(), 16);
  require_finite(".quant_map", t.values);
  if (nested_) {
    whole(".absmax", &t.absmax, t.blocks());
    whole(".nested_absmax", &t.nested_absmax, (t.blocks() + nn::kNf4Nested - 1) / nn::kNf4Nested);
    fill(".nested_quant_map", t.nested_values.data(), 256);
    require_finite(".nested_quant_map", t.nested_values);
  } else {
    whole(".absmax", &t.plain_absmax, t.blocks());
  }
  std::vector<float> numbers(nf4 == nullptr || digest != nullptr ? static_cast<size_t>(size_) : 0);
  if (!numbers.empty()) nn::nf4_decode(t, numbers.data());
  if (digest != nullptr) digest->add(numbers.data(), size_ * int64_t{sizeof(float)});
  if (nf4 != nullptr) return (*nf4)(binding.parts[0].parameter, std::move(t));
  const float* from = numbers.data();
  for (const BindingPart& to : binding.parts) {
    std::copy_n(from, to.size, sink(to.parameter) + to.begin);
    from += to.size;
  }
}

}  // namespace hawser::checkpoint::hf
