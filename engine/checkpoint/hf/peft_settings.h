// PeftSettings: an adapter in PEFT's terms. Config files are read into this form, written from it and
// compared in it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::checkpoint::hf {

struct RankAndAlpha {
  int64_t rank = 0;
  double alpha = 0;
  bool operator==(const RankAndAlpha&) const = default;
};

struct PeftSettings {
  RankAndAlpha usual;
  std::map<std::string, RankAndAlpha> modules;  ///< by path, such as model.layers.0.self_attn.q_proj
  std::set<std::string> saved;                  ///< paths of modules that are trained in full
  bool rslora = false, dora = false;
  double dropout = 0;

  /// True if both describe the same adapter, even if their texts differ.
  bool means_same(const PeftSettings& other) const {
    return modules == other.modules && saved == other.saved && rslora == other.rslora && dora == other.dora &&
           dropout == other.dropout;
  }
};

/// Path of the head of a score model.
inline constexpr const char* kScorePath = "score";

/// The modules of a model: each path and our module (`blocks.0.attention.q`; `.qkv` if the family has them as
/// one).
struct PeftModules {
  std::map<std::string, std::string> linears;
  std::map<std::string, std::vector<std::string>>
      others;  ///< all modules, with the parameters that they hold

  /// Returns the modules of `model`; an adapter in it makes no difference.
  static PeftModules of(std::string_view family, const nn::ModelConfig& model);
};

/// Returns the settings that a file describes; throws its problems.
PeftSettings read_peft_settings(const std::string& config_text, const PeftModules& modules);
/// Returns the settings of a model with an adapter. Throws kFailedPrecondition for features that PEFT cannot
/// express.
PeftSettings peft_settings_of(const nn::ModelConfig& model, const PeftModules& modules);
/// Returns the text of an adapter_config.json.
std::string peft_config_text(const PeftSettings& settings, const PeftModules& modules,
                             std::string_view family, const std::string& base);

}  // namespace hawser::checkpoint::hf
