// Tensor transfer: copies one Hugging Face tensor between a file and our parameters, through a buffer of
// bounded size.
#pragma once

#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/safetensors_writer.h"

namespace hawser::checkpoint::hf {

/// Copies a tensor from its file to the sinks: widened, split, transposed back. The tensor's dtype and shape
/// must have been checked. Adds the stored bytes to `digest` (may be null).
void read_binding(const SafetensorsFile& file, const TensorInfo& info, const Binding& binding,
                  const nn::ParameterTable& table, const ParameterSink& sink, Digest* digest);

/// Copies from the sources to the next bytes of `writer`. Throws kOutOfRange for a value that `dtype` cannot
/// hold.
void write_binding(SafetensorsWriter* writer, DType dtype, const Binding& binding,
                   const nn::ParameterTable& table, const ParameterSource& source);

}  // namespace hawser::checkpoint::hf
