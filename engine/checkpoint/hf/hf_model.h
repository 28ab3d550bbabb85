// Hugging Face folders (config.json + safetensors, one file or sharded with an index): which of their tensors
// is which of ours, and what config.json says of the model. Families: gpt2, llama, mistral, qwen2, qwen3,
// gemma2.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"

namespace hawser::checkpoint::hf {

bool is_hf_folder(const std::string& path);  ///< config.json and model.safetensors or its index

/// config.json of the folder. Throws kCheckpointCorrupt for one of more than 1 MiB, for a link elsewhere, a
/// FIFO or a device.
std::string read_config_text(const std::string& path);

/// One Hugging Face tensor made of parameters of ours: stacked along our rows (dimension 0) in order, then
/// transposed if `transposed` (GPT-2's Conv1D stores [in, out]).
struct Binding {
  std::string hf_name;
  std::vector<int64_t> hf_shape;
  std::vector<std::string> parameters;  ///< our names; none: zeros (see Absent)
  bool transposed = false;
};

/// The model section as a JSON config text ({"model": {...}}) from config.json's text, Transformers 4 or 5
/// keys. Keys that matter to the math are honoured or refused by name (kConfigInvalid, all at once); a listed
/// set without effect is accepted; any other is refused unless in ignore_keys. kConfigParse for what is no
/// JSON.
std::string model_json(std::string_view config_json_text, const std::vector<std::string>& ignore_keys);

/// model_type of a model that Hugging Face can express, from its config ("" if none can), for exports of
/// models that did not come from there.
std::string family_of(const nn::ModelConfig& model);

/// What becomes of biases that the family always has and the model has not: they are no tensors of it, or, in
/// an export, tensors of zeros, which say the same.
enum class Absent { kLeftOut, kZeros };

/// Names and order as Transformers writes them for the family.
std::vector<Binding> bindings(std::string_view family, const nn::ModelConfig& model,
                              const nn::ParameterTable& table, Absent absent = Absent::kLeftOut);

/// Element access to parameters of ours, f32 [size], by name.
using ParameterSink = std::function<float*(const std::string& name)>;
using ParameterSource = std::function<const float*(const std::string& name)>;

/// What an import leaves for a later export: files carried along unread (config.json among them), and a
/// record "hawser_import.json" (stored dtype per tensor, name prefix, shards).
using ExtraFiles = std::map<std::string, std::string>;

/// Reads all weights of `folder` into `sink` (bf16, f16, f32 widened exactly), and calls `taken` whenever the
/// parameters that it asked for since the last call are whole: after each stored tensor. Everything is
/// checked (missing, unknown, shapes) before the first byte is written to a sink. Constant mask buffers are
/// recognised and skipped; GPT-2 with and without "transformer." prefix.
ExtraFiles import_weights(const std::string& folder, const nn::ModelConfig& model,
                          const nn::ParameterTable& table, const ParameterSink& sink,
                          const std::function<void()>& taken);

/// Writes `folder` (must not exist): config.json that Transformers loads, weights (stored dtypes and names of
/// the import where `extra` knows them, else f32), carried files. dtype_override: "", "f32", "bf16", "f16".
/// Calls `written` whenever the parameters that it asked for since the last call are needed no more: after
/// each stored tensor. Exports exactly: export(import(x)) == x bit for bit.
void export_folder(const std::string& folder, const nn::ModelConfig& model, const nn::ParameterTable& table,
                   const ParameterSource& source, const ExtraFiles& extra, const std::string& dtype_override,
                   const std::function<void()>& written);

}  // namespace hawser::checkpoint::hf
