#include "engine/checkpoint/hf/quantised.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/hf/hf_config.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr const char* kKey = "quantization_config";

/// Refuses fp8 except E4M3 with a scale for each block of 128 x 128 numbers. activation_scheme must be
/// "dynamic", because "static" folders also store scales of activations. modules_to_not_convert is not read:
/// the dtype of a tensor shows whether it is in fp8.
void check_fp8(ConfigFields* config, ConfigFields* fields) {
  const std::string type = fields->text("fmt", "e4m3"), scheme = fields->text("activation_scheme", "dynamic");
  constexpr const char* kBlocks = "weight_block_size";
  if (type != "e4m3") config->problem(kKey, fmt::format("has fmt \"{}\"; only \"e4m3\" is supported", type));
  if (scheme != "dynamic")
    config->problem(kKey, fmt::format("has activation_scheme \"{}\"; only \"dynamic\" is supported", scheme));
  if (!fields->has(kBlocks))
    config->problem(kKey, "is fp8 and has no weight_block_size; only [128, 128] is supported");
  else if (fields->integers(kBlocks) != std::vector<int64_t>{128, 128})
    config->problem(kKey, fmt::format("has weight_block_size {}; only [128, 128] is supported",
                                      fields->value_text(kBlocks)));
}

}  // namespace

void read_quantisation(ConfigFields* config, std::string_view family) {
  config->accept(kKey);
  if (!config->has(kKey) || config->is_null(kKey) || config->value_text(kKey) == "{}") return;
  const std::string all = config->value_text(kKey);
  if (!config->is_object(kKey))
    return config->problem(kKey, fmt::format("is {}, which is not supported", all));
  ConfigFields fields = config->object(kKey);
  const std::string method = fields.text("quant_method", "");
  const std::string type = fields.text("bnb_4bit_quant_type", "fp4");
  if (method.empty()) return config->problem(kKey, fmt::format("is {}, which is not supported", all));
  if (method == "mxfp4" && is_gpt_oss(family)) return;
  if (method == "fp8") return check_fp8(config, &fields);
  if (method != "bitsandbytes")
    return config->problem(kKey, fmt::format("has quant_method \"{}\"; only fp8, bitsandbytes' nf4, and "
                                             "mxfp4 for gpt_oss are supported",
                                             method));
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

void QuantisedTensor::refuse(const std::string& what) const {
  fail(Code::kCheckpointIncompatible, "{}: {}, which is quantised to {}, {}", files_.names.front(), name_,
       format_, what);
}

const TensorInfo& QuantisedTensor::part(const std::string& suffix, const char* dtype, int64_t count) {
  const std::string name = name_ + suffix;
  const auto found = files_.tensors.find(name);
  if (found == files_.tensors.end()) refuse(fmt::format("needs the tensor {}, which is missing", name));
  const TensorInfo& info = *found->second.info;
  int64_t elements = 1;
  for (const int64_t extent : info.shape) elements *= extent;
  if (info.dtype != dtype || elements != count)
    refuse(fmt::format("has {} as {} {}, not {} numbers of {}", name, info.dtype, shape_text(info.shape),
                       count, dtype));
  if (name != codes_) companions_.push_back(name);
  return info;
}

void QuantisedTensor::read_part(const std::string& suffix, int64_t begin, void* to, int64_t bytes) const {
  const WeightFiles::TensorLocation& place = files_.tensors.at(name_ + suffix);
  files_.file_of(place).read(*place.info, begin, to, bytes);
}

void QuantisedTensor::require_finite(const std::string& suffix, std::span<const float> values) const {
  const auto found = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  if (found == values.end()) return;
  refuse(fmt::format("has {} at index {} of {}{}; the file is damaged: download it again",
                     std::isnan(*found) ? "NaN" : "an infinite number", found - values.begin(), name_,
                     suffix));
}

std::unique_ptr<QuantisedTensor> open_quantised(const WeightFiles& files, const std::string& name) {
  if (is_mxfp4(files, name)) return open_mxfp4(files, name);
  if (is_nf4(files, name)) return open_nf4(files, name);
  return is_fp8(files, name) ? open_fp8(files, name) : nullptr;
}

}  // namespace hawser::checkpoint::hf
