// Rope fields: read the rotary scaling in config.json. Transformers 4 has rope_theta and rope_scaling (null,
// or an object whose type is under "rope_type" or, older, "type"). Transformers 5 has everything in
// rope_parameters, in some models by layer type. If both are present they must agree, and rope_scaling is
// used, as in Transformers.
#include <fmt/format.h>

#include <array>

#include "engine/checkpoint/hf/hf_config.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr double kTiny = 1e-30;

using nn::RopeScaling;

/// Reads the fields of one rope object into *rope. `theta_beside` applies if the object has no theta.
void read_object(ConfigFields* object, double theta_beside, int64_t context, nn::RopeConfig* rope) {
  rope->theta = object->number("rope_theta", theta_beside, kTiny);
  const std::string old_type = object->text("type", "");
  const std::string type = object->text("rope_type", old_type.empty() ? "default" : old_type);
  if (!old_type.empty() && old_type != type)
    object->problem("type",
                    fmt::format("is \"{}\", but rope_type is \"{}\"; remove the wrong one", old_type, type));
  if (object->number("partial_rotary_factor", 1.0, 0.0) != 1.0)
    object->problem("partial_rotary_factor", "is not 1; rotating only a part of each head is not supported");
  if (type == "default") {
    object->accept("factor");  // without a scaling the factor has no effect, and Transformers ignores it
    return;
  }
  if (type == "linear" || type == "llama3" || type == "yarn") {
    rope->scaling = type == "linear"   ? RopeScaling::kLinear
                    : type == "llama3" ? RopeScaling::kLlama3
                                       : RopeScaling::kYarn;
  } else {
    object->problem(object->has("rope_type") ? "rope_type" : "type",
                    fmt::format("is \"{}\"; supported are default, linear, llama3 and yarn", type));
    for (const std::string& key : object->keys()) object->accept(key);
    return;
  }
  if (type != "linear") rope->original_context = object->integer("original_max_position_embeddings", context);
  if (!object->has("factor")) object->problem("factor", fmt::format("is missing; {} scaling needs it", type));
  const bool from_contexts = type == "yarn" && object->is_null("factor");
  const double ratio =
      static_cast<double>(context) / static_cast<double>(std::max<int64_t>(rope->original_context, 1));
  rope->factor = object->number("factor", from_contexts ? ratio : 1.0, 1.0);
  if (type == "llama3") {
    for (const char* key : {"low_freq_factor", "high_freq_factor"})
      if (!object->has(key)) object->problem(key, "is missing; llama3 scaling needs it");
    rope->low_freq_factor = object->number("low_freq_factor", 1.0, kTiny);
    rope->high_freq_factor = object->number("high_freq_factor", 4.0, kTiny);
  }
  if (type == "yarn") {
    const auto or_default = [&](const char* key, double fallback) {  // 0 and null mean "not given"
      const double value = object->number(key, 0.0, 0.0);
      return value == 0.0 ? fallback : value;
    };
    rope->beta_fast = or_default("beta_fast", 32.0);
    rope->beta_slow = or_default("beta_slow", 1.0);
    rope->attention_factor = object->number("attention_factor", 0.0, kTiny);
    rope->mscale = object->number("mscale", 0.0, 0.0);
    rope->mscale_all_dim = object->number("mscale_all_dim", 0.0, 0.0);
    rope->truncate = object->flag("truncate", true);
  }
}

void refuse_unknown(const ConfigFields& object, ConfigFields* parent, const std::string& key) {
  for (const std::string& name : object.unknown())
    parent->problem(key + "/" + name, "is not known for this kind of rotary scaling; remove it");
}

constexpr std::array<const char*, 2> kLayerTypes = {"full_attention", "sliding_attention"};

/// Reads the rotation of layers with a window, which has no scaling.
void read_window_theta(ConfigFields* fields, ConfigFields* chosen, const std::string& used,
                       nn::RopeConfig* rope) {
  const double beside = fields->number("rope_local_base_freq", 10000.0, kTiny);
  ConfigFields inner = chosen->object("sliding_attention");
  nn::RopeConfig of_windows;
  read_object(&inner, beside, 1, &of_windows);
  refuse_unknown(inner, fields, used + "/sliding_attention");
  if (of_windows.scaling != RopeScaling::kNone)
    fields->problem(used + "/sliding_attention",
                    "has a scaling, which is not supported for layers with a window");
  rope->window_theta = of_windows.theta;
}

/// Reads an object that has one entry per layer type; only Gemma 3 may rotate them differently. Returns false
/// if the object is not by layer type.
bool read_by_layer_type(ConfigFields* fields, ConfigFields* chosen, const std::string& used, double theta,
                        int64_t context, bool two_tables, nn::RopeConfig* rope) {
  for (const char* type : kLayerTypes) {
    if (!chosen->is_object(type)) continue;
    for (const char* other : kLayerTypes)
      if (!two_tables && chosen->is_object(other) && !chosen->same_value(type, *chosen, other))
        fields->problem(
            used + "/" + other,
            "differs from that of the other layers; only one rotation for all layers is supported");
    ConfigFields inner = chosen->object(two_tables ? kLayerTypes[0] : type);
    read_object(&inner, theta, context, rope);
    refuse_unknown(inner, fields, used + "/" + type);
    for (const char* other : kLayerTypes) chosen->accept(other);
    refuse_unknown(*chosen, fields, used);
    return true;
  }
  return false;
}

}  // namespace

void read_rope(ConfigFields* fields, std::string_view family, int64_t context, nn::RopeConfig* rope) {
  const bool two_tables = family == "gemma3_text";
  const double theta = fields->number("rope_theta", two_tables ? 1e6 : 10000.0, kTiny);
  if (fields->number("partial_rotary_factor", 1.0, 0.0) != 1.0)
    fields->problem("partial_rotary_factor", "is not 1; rotating only a part of each head is not supported");
  ConfigFields scaling = fields->object("rope_scaling");
  ConfigFields parameters = fields->object("rope_parameters");
  std::string used = scaling.keys().empty() ? "rope_parameters" : "rope_scaling";
  ConfigFields chosen = fields->object(used);
  if (used == "rope_scaling") {
    for (const std::string& key : scaling.keys())
      if (parameters.has(key) && !scaling.same_value(key, parameters, key))
        fields->problem("rope_scaling/" + key,
                        fmt::format("is {}, but rope_parameters has {}; remove the wrong one",
                                    scaling.value_text(key), parameters.value_text(key)));
    if (!parameters.keys().empty() && fields->has("rope_theta") && parameters.has("rope_theta") &&
        !fields->same_value("rope_theta", parameters, "rope_theta"))
      fields->problem("rope_theta",
                      fmt::format("is {}, but rope_parameters has {}; remove the wrong one",
                                  fields->value_text("rope_theta"), parameters.value_text("rope_theta")));
  }
  if (two_tables) read_window_theta(fields, &chosen, used, rope);
  if (read_by_layer_type(fields, &chosen, used, theta, context, two_tables, rope)) return;
  read_object(&chosen, theta, context, rope);
  // This key takes precedence over the object, as in Transformers.
  if (fields->has("original_max_position_embeddings")) {
    const int64_t original = fields->integer("original_max_position_embeddings", rope->original_context);
    if (rope->scaling == RopeScaling::kLlama3 || rope->scaling == RopeScaling::kYarn)
      rope->original_context = original;
  }
  refuse_unknown(chosen, fields, used);
}

}  // namespace hawser::checkpoint::hf
