// Tensors of a Hugging Face folder that are not weights: buffers that older versions of Transformers stored
// with the model (GPT-2's causal mask and mask value, rotary frequencies). They are accepted only with the
// values that the mathematics implies.
#pragma once

#include <optional>
#include <string>

#include "engine/checkpoint/hf/import_record.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/nn/model_config.h"

namespace hawser::checkpoint::hf {

/// `name`: without the base model's prefix. Nothing if no such buffer goes by the name; throws
/// kCheckpointIncompatible if one does but has another shape or values.
std::optional<RecordedTensor> recognise_constant(const std::string& family, const std::string& name,
                                                 const SafetensorsFile& file, const TensorInfo& info,
                                                 const nn::ModelConfig& model);

/// Row `row` of an [n, n] causal mask in the given dtype, to `dst`. False for a dtype masks do not have.
bool causal_mask_row(const std::string& dtype, int64_t n, int64_t row, std::string* dst);

}  // namespace hawser::checkpoint::hf
