// GGUF export: writes a model as one file that llama.cpp loads.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"

namespace hawser::checkpoint::gguf {

/// True for a path that ends in .gguf.
bool is_gguf_path(std::string_view path);

/// Writes the file, which appears complete or not at all. dtype: "f32", "f16", "bf16", "q8_0", or "" for that
/// of the imported folder, else f32. Vectors, routers and tables of positions are always f32, as llama.cpp
/// needs them. `source` and `written` as for hf::export_folder, `files` are those of an exported folder.
/// Throws kFailedPrecondition, before anything is written, if llama.cpp cannot compute the model or has no
/// such tokenizer; kInvalidArgument for an unknown dtype, or q8_0 with rows that are not a multiple of 32;
/// kAlreadyExists; kOutOfRange for a weight that the dtype cannot hold; file errors.
void export_file(const std::string& path, const nn::ModelConfig& model, const nn::ParameterTable& table,
                 const hf::ParameterSource& source, const hf::ExtraFiles& files, const std::string& dtype,
                 const std::function<void()>& written);

}  // namespace hawser::checkpoint::gguf
