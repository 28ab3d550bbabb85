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
  data::Vocabulary vocabulary;                ///< kNone until a BPE is learned (learn_tokenizer.h)
  std::shared_ptr<const ModelTokens> tokens;  ///< null if the model has no tokenizer
  std::string model_json;                     ///< resolved model section
  std::string adapter_json;                   ///< resolved adapter section; "" without an adapter
  std::string family;                         ///< Hugging Face model_type of an export; "" if no family fits

  /// The model ends in a score and /init/from has a language model: the head is initialised randomly.
  bool new_head = false;

  /// Returns the model section as checkpoints store it: with a key `adapter` if there is an adapter.
  std::string stored_model_json() const;
};

/// Returns the Transformers class of an export, such as "LlamaForCausalLM", or "none (...)" with what each
/// family lacks.
std::string hugging_face_form(const Assembly& assembly);

/// Throws what config::resolve throws, and an error for a file that is missing or wrong.
Assembly assemble(const config::ConfigTree& config);
/// Returns only the tree: the config, completed with the model of /init/from and the vocabulary of the data.
/// Throws what config::resolve throws.
config::ConfigTree assemble_config(const config::ConfigTree& config);
/// Returns a config that runs the model in a checkpoint or Hugging Face folder (hws_config_from_model).
config::ConfigTree config_from_model(const std::string& path);

}  // namespace hawser::train
