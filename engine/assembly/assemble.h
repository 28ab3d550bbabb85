// Assembly: everything an engine needs before it is built. It starts from a config, fills in what /init/from
// and the data determine about the model, and resolves the result.
#pragma once

#include <memory>
#include <string>

#include "engine/assembly/model_tokens.h"
#include "engine/config/config_tree.h"
#include "engine/data/vocabulary.h"

namespace hawser::train {

struct Assembly {
  config::ConfigTree tree;  ///< the config, completed from files
  config::ResolvedConfig config;
  data::Vocabulary vocabulary;  ///< none yet for a BPE that is to be learned (learn_tokenizer.h)
  std::shared_ptr<const ModelTokens> tokens;  ///< of a model with a tokenizer; else null
  std::string model_json;                     ///< resolved model section
  std::string adapter_json;                   ///< resolved adapter section; "" without an adapter
  std::string family;                         ///< Hugging Face model_type of an export; "" if no family fits

  bool new_head =
      false;  ///< a score, where /init/from has a language model: its head is not loaded but drawn

  /// As checkpoints store it: with a key `adapter` if there is one.
  std::string stored_model_json() const;
};

/// The Transformers class of an export, such as "LlamaForCausalLM", or "none (...)" with what each family
/// lacks.
std::string hugging_face_form(const Assembly& assembly);

/// Throws what config::resolve throws, and an error for each file that is missing or wrong.
Assembly assemble(const config::ConfigTree& config);
/// Only the tree: the config with the model of /init/from and the vocabulary of the data filled in. Throws
/// what config::resolve throws.
config::ConfigTree assemble_config(const config::ConfigTree& config);
/// A config that runs the model in a checkpoint or Hugging Face folder (hws_config_from_model).
config::ConfigTree config_from_model(const std::string& path);

}  // namespace hawser::train
