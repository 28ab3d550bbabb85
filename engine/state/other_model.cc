#include "engine/state/other_model.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/config/problems.h"

namespace hawser::train {

OrderedJson other_model(const Assembly& assembly, const char* pointer, const std::string& folder) {
  if (!checkpoint::is_checkpoint(folder) && !checkpoint::hf::is_hf_folder(folder))
    fail(Code::kNotFound,
         "{} \"{}\" is neither a checkpoint (manifest.json) nor a Hugging Face folder (config.json and "
         "model.safetensors)",
         pointer, folder);
  OrderedJson json;
  json["init"]["from"] = folder;
  const Assembly other = assemble(config::ConfigTree::from_json(json.dump()));
  const int64_t words = other.config.model.vocab_size, own = assembly.config.model.vocab_size;
  if (words != own)
    config::throw_if_any(
        {{pointer,
          fmt::format("the model in {} has a vocabulary of {} tokens, but the model in training has {}",
                      folder, words, own),
          "name a model with the same tokenizer"}});
  if (assembly.tokens && other.tokens && assembly.tokens->digest() != other.tokens->digest())
    config::throw_if_any(
        {{pointer,
          fmt::format("the model in {} has a different tokenizer from the model in training, so the same "
                      "token id means different tokens",
                      folder),
          "name a model with the same tokenizer"}});
  return json;
}

config::ConfigTree on_same_data(const Assembly& assembly, OrderedJson model) {
  const config::ResolvedConfig& c = assembly.config;
  OrderedJson& batch = model["batch"];
  batch["micro_batch"] = c.batch.micro_batch;
  batch["grad_accum_steps"] = c.batch.grad_accum_steps;
  batch["sequence"] = c.batch.sequence;
  const OrderedJson given = parse_json<OrderedJson>(assembly.tree.to_json_without_preset());
  for (const char* section :
       {"data", "precision", "device", "deterministic", "cpu", "cuda", "mesh", "pipeline", "zero", "comm"})
    if (given.contains(section)) model[section] = given[section];
  return config::ConfigTree::from_json(model.dump());
}

}  // namespace hawser::train
