// What an adapter is, in PEFT's words: the one form that a config file is read into, written from, and
// compared in.
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
  std::set<std::string> saved;                  ///< paths of modules that are trained whole
  bool rslora = false, dora = false;
  double dropout = 0;

  /// Whether both mean the same, however they are written.
  bool means_same(const PeftSettings& other) const {
    return modules == other.modules && saved == other.saved && rslora == other.rslora && dora == other.dora &&
           dropout == other.dropout;
  }
};

/// The head of a model that ends in a score.
inline constexpr const char* kScorePath = "score";

/// The modules of a model: each path, and ours (`blocks.0.attention.q`, or `.qkv` of what a family has as
/// one).
struct PeftModules {
  std::map<std::string, std::string> linears;
  std::map<std::string, std::vector<std::string>>
      others;  ///< all modules, with the parameters that they hold

  /// `model`: an adapter of it makes no difference.
  static PeftModules of(std::string_view family, const nn::ModelConfig& model);
};

/// The settings that a file means; problems are thrown.
PeftSettings read_peft_settings(const std::string& config_text, const PeftModules& modules);
/// Those of a model with an adapter. Throws kFailedPrecondition for what PEFT cannot say.
PeftSettings peft_settings_of(const nn::ModelConfig& model, const PeftModules& modules);
/// An adapter_config.json.
std::string peft_config_text(const PeftSettings& settings, const PeftModules& modules,
                             std::string_view family, const std::string& base);

}  // namespace hawser::checkpoint::hf
