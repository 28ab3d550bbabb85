// Constant tensors: tensors of a Hugging Face folder that are not weights. Older versions of Transformers
// stored such buffers with the model (GPT-2's causal mask and mask value, rotary frequencies). They are
// accepted only with the expected values.
#pragma once

#include <optional>
#include <string>

#include "engine/checkpoint/hf/import_record.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/nn/model_config.h"

namespace hawser::checkpoint::hf {

/// `name` is without the base model's prefix. Returns nothing if no buffer has this name; throws
/// kCheckpointIncompatible if the buffer has another shape or other values.
std::optional<RecordedTensor> recognise_constant(const std::string& family, const std::string& name,
                                                 const SafetensorsFile& file, const TensorInfo& info,
                                                 const nn::ModelConfig& model);

/// Writes row `row` of an [n, n] causal mask in the given dtype to `dst`. Returns false for a dtype that
/// masks do not have.
bool causal_mask_row(const std::string& dtype, int64_t n, int64_t row, std::string* dst);

}  // namespace hawser::checkpoint::hf
