// Assembly: everything an engine needs before it is built, from a config: what init.from and the data say of
// the model is laid over it, then it is resolved.
#pragma once

#include <string>

#include "engine/config/config_tree.h"
#include "engine/data/vocabulary.h"

namespace hawser::train {

struct Assembly {
  config::ConfigTree tree;  ///< with what was imported
  config::ResolvedConfig config;
  data::Vocabulary vocabulary;
  std::string model_json;  ///< resolved model section
  std::string family;      ///< Hugging Face's model_type of an export; "": it has no name for this model
};

/// What Transformers calls an export of the model, such as "LlamaForCausalLM", or "none (...)" with what each
/// family lacks.
std::string hugging_face_form(const Assembly& assembly);

/// Throws as config::resolve, and for files that are missing or wrong.
Assembly assemble(const config::ConfigTree& config);
/// Its tree alone: what a config takes from files is filled in, the model of init.from and the vocabulary of
/// the data. Throws like resolve.
config::ConfigTree assemble_config(const config::ConfigTree& config);
/// The config that runs the model of a checkpoint or Hugging Face folder (hws_config_from_model).
config::ConfigTree config_from_model(const std::string& path);

}  // namespace hawser::train
