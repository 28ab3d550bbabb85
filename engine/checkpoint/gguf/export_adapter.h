// GGUF adapters: writes a LoRA adapter as one file that llama.cpp applies to the base model's file.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"

namespace hawser::checkpoint::gguf {

/// Writes the factors in f32 to a file that appears complete or not at all. `family` is that of the base
/// model, whose own file must have been made from the same folder. Throws kFailedPrecondition, before
/// anything is written, for what such a file cannot hold: DoRA magnitudes, base parameters that are trained
/// too, one adapter for each of GPT-2's q, k and v, and kv_b of latent attention. Throws kAlreadyExists and
/// file errors.
void export_adapter(const std::string& path, std::string_view family, const nn::ModelConfig& model,
                    const nn::ParameterTable& table, const hf::ParameterSource& source,
                    const std::function<void()>& written);

}  // namespace hawser::checkpoint::gguf
