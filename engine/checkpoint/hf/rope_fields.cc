// Rope fields: read the rotary scaling in config.json. Transformers 4 has rope_theta and rope_scaling (null,
// or an object whose type is under "rope_type" or, older, "type"). Transformers 5 has everything in
// rope_parameters, in some models by layer type. If both are present they must agree, and rope_scaling is
// used, as in Transformers. The rotated part of a head, partial_rotary_factor, may be in either place.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "engine/checkpoint/hf/hf_config.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr double kTiny = 1e-30;

using nn::RopeScaling;

constexpr const char* kFactor = "partial_rotary_factor";

/// The config outside of a rope object. Its theta and factor apply if the object has none.
struct Outer {
  ConfigFields* fields = nullptr;
  double theta = 0, factor = 1;
  bool rotates_parts = false;  ///< the family may rotate a part of each head
  int64_t head_dim = 0, context = 0;
};

/// Returns the rotated features of a head: as in Transformers, the product is rounded towards zero.
int64_t rotated_features(int64_t head_dim, double factor) {
  return static_cast<int64_t>(static_cast<double>(head_dim) * factor);
}

/// Reads which part of a head an object rotates.
int64_t read_dim(ConfigFields* object, const Outer& outer) {
  const double factor = object->number(kFactor, outer.factor, 0.0);
  ConfigFields* const place = object->has(kFactor) ? object : outer.fields;
  const int64_t dim = rotated_features(outer.head_dim, factor);
  if (!outer.rotates_parts && factor != 1.0) {
    place->problem(kFactor,
                   "is not 1; rotating only a part of each head is not supported for this model type");
  } else if (outer.rotates_parts && (dim < 2 || dim > outer.head_dim || dim % 2 != 0)) {
    place->problem(kFactor,
                   fmt::format("is {} and rotates {} of the {} features of a head; an even number from "
                               "2 to {} is supported",
                               factor, dim, outer.head_dim, outer.head_dim));
  }
  return dim;
}

/// Reads the fields of one rope object into *rope.
void read_object(ConfigFields* object, const Outer& outer, nn::RopeConfig* rope) {
  const int64_t context = outer.context;
  rope->theta = object->number("rope_theta", outer.theta, kTiny);
  rope->dim = read_dim(object, outer);
  const std::string old_type = object->text("type", "");
  const std::string type = object->text("rope_type", old_type.empty() ? "default" : old_type);
  if (!old_type.empty() && old_type != type)
    object->problem("type",
                    fmt::format("is \"{}\", but rope_type is \"{}\"; remove the wrong one", old_type, type));
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

/// Sets the YaRN with which Transformers 5 reads a GPT-OSS folder whose config.json has no rope parameters.
void set_yarn(ConfigFields* fields, nn::RopeConfig* rope) {
  rope->scaling = RopeScaling::kYarn;
  rope->factor = 32.0, rope->beta_fast = 32.0, rope->beta_slow = 1.0;
  rope->original_context = 4096;
  rope->truncate = false;
  if (fields->has("rope_scaling"))
    fields->problem("rope_scaling",
                    "is null, which Transformers 4 reads as no scaling and 5 as YaRN; add "
                    "rope_parameters");
}

void refuse_unknown(const ConfigFields& object, ConfigFields* parent, const std::string& key) {
  for (const std::string& name : object.unknown())
    parent->problem(key + "/" + name, "is not known for this kind of rotary scaling; remove it");
}

constexpr std::array<const char*, 2> kLayerTypes = {"full_attention", "sliding_attention"};

/// Reads the rotation of layers with a window, which has no scaling.
void read_window_theta(const Outer& outer, ConfigFields* chosen, const std::string& used,
                       nn::RopeConfig* rope) {
  ConfigFields* const fields = outer.fields;
  Outer beside = outer;
  beside.theta = fields->number("rope_local_base_freq", 10000.0, kTiny);
  beside.context = 1;
  ConfigFields inner = chosen->object("sliding_attention");
  nn::RopeConfig of_windows;
  read_object(&inner, beside, &of_windows);
  refuse_unknown(inner, fields, used + "/sliding_attention");
  if (of_windows.scaling != RopeScaling::kNone)
    fields->problem(used + "/sliding_attention",
                    "has a scaling, which is not supported for layers with a window");
  rope->window_theta = of_windows.theta;
}

/// Reads an object that has one entry per layer type; only Gemma 3 may rotate them differently. Returns false
/// if the object is not by layer type.
bool read_by_layer_type(const Outer& outer, ConfigFields* chosen, const std::string& used, bool two_tables,
                        nn::RopeConfig* rope) {
  ConfigFields* const fields = outer.fields;
  for (const char* type : kLayerTypes) {
    if (!chosen->is_object(type)) continue;
    for (const char* other : kLayerTypes)
      if (!two_tables && chosen->is_object(other) && !chosen->same_value(type, *chosen, other))
        fields->problem(
            used + "/" + other,
            "differs from that of the other layers; only one rotation for all layers is supported");
    ConfigFields inner = chosen->object(two_tables ? kLayerTypes[0] : type);
    read_object(&inner, outer, rope);
    refuse_unknown(inner, fields, used + "/" + type);
    for (const char* other : kLayerTypes) chosen->accept(other);
    refuse_unknown(*chosen, fields, used);
    return true;
  }
  return false;
}

/// Refuses a key that differs between the config and its rope_parameters.
void refuse_different(const char* key, ConfigFields* fields, const ConfigFields& parameters) {
  if (fields->has(key) && parameters.has(key) && !fields->same_value(key, parameters, key))
    fields->problem(key, fmt::format("is {}, but rope_parameters has {}; remove the wrong one",
                                     fields->value_text(key), parameters.value_text(key)));
}

}  // namespace

void read_rope(ConfigFields* fields, std::string_view family, nn::ModelConfig* model) {
  nn::RopeConfig* const rope = &model->rope;
  const bool two_tables = family == "gemma3_text";
  Outer outer{.fields = fields,
              .rotates_parts = is_glm(family),
              .head_dim = model->head_dim,
              .context = model->context};
  outer.theta = fields->number("rope_theta",
                               two_tables           ? 1e6
                               : is_gpt_oss(family) ? 150000.0
                                                    : 10000.0,
                               kTiny);
  outer.factor = fields->number(kFactor, is_glm(family) ? 0.5 : 1.0, 0.0);
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
    refuse_different("rope_theta", fields, parameters);
  }
  refuse_different(kFactor, fields, parameters);
  if (two_tables) read_window_theta(outer, &chosen, used, rope);
  if (read_by_layer_type(outer, &chosen, used, two_tables, rope)) return;
  read_object(&chosen, outer, rope);
  if (is_gpt_oss(family) && used == "rope_parameters" && !fields->is_object(used)) set_yarn(fields, rope);
  // This key takes precedence over the object, as in Transformers.
  if (fields->has("original_max_position_embeddings")) {
    const int64_t original = fields->integer("original_max_position_embeddings", rope->original_context);
    if (rope->scaling == RopeScaling::kLlama3 || rope->scaling == RopeScaling::kYarn)
      rope->original_context = original;
  }
  refuse_unknown(chosen, fields, used);
}

double rotary_factor(const nn::ModelConfig& model) {
  const double factor = static_cast<double>(model.rope_dim()) / static_cast<double>(model.head_dim);
  // The product with head_dim may be slightly less than rope_dim, and a reader rounds it towards zero.
  return rotated_features(model.head_dim, factor) == model.rope_dim() ? factor : std::nextafter(factor, 2.0);
}

}  // namespace hawser::checkpoint::hf
