// PEFT folders (adapter_config.json + adapter_model.safetensors): read and write LoRA adapters on the modules
// of a Hugging Face family, in the names, shapes and types that PEFT writes. Keys that change the mathematics
// are honoured or refused by name. https://github.com/huggingface/peft, version 0.21.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::checkpoint::hf {

inline constexpr const char* kAdapterConfigName = "adapter_config.json";
inline constexpr const char* kAdapterWeightsName = "adapter_model.safetensors";
inline constexpr const char* kAdapterRecordName = "hawser_adapter_import.json";

/// True if an export of the base omits this extra file.
inline bool is_adapter_file(std::string_view name) {
  return name == kAdapterConfigName || name == kAdapterRecordName;
}

/// Returns the text of the folder's adapter_config.json. Throws kNotFound if it is not a PEFT folder.
std::string read_adapter_config(const std::string& folder);
/// Returns the adapter section of this text as a JSON config text ({"adapter": {...}}), for a model without
/// an adapter. Throws kConfigInvalid with all problems at once, or kConfigParse for invalid JSON.
std::string adapter_json(const std::string& config_text, std::string_view family,
                         const nn::ModelConfig& model);

/// Returns PEFT's names for the factors in `table` and for the parameters trained in full. `bindings`: those
/// of the base.
std::vector<Binding> adapter_bindings(const std::vector<Binding>& bindings, const nn::ParameterTable& table);

/// Reads all weights of the folder into `sink`, as import_weights does. Returns the data that an export needs
/// to reproduce the folder.
ExtraFiles import_adapter(const std::string& folder, std::string_view family, const nn::ModelConfig& model,
                          const nn::ParameterTable& table, const ParameterSink& sink,
                          const std::function<void()>& taken);
/// Writes `folder` (must not exist), with the types and settings of the import if `extra` has them, else f32.
/// `base`: the value of base_model_name_or_path; "" for null.
void export_adapter(const std::string& folder, std::string_view family, const nn::ModelConfig& model,
                    const nn::ParameterTable& table, const ParameterSource& source, const ExtraFiles& extra,
                    const std::string& base, const std::function<void()>& written);

}  // namespace hawser::checkpoint::hf
