// Architectures: the models that llama.cpp computes exactly as Hawser does, and their metadata in a GGUF
// file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/checkpoint/gguf/format.h"
#include "engine/nn/model_config.h"

namespace hawser::checkpoint::gguf {

/// A llama.cpp architecture that can hold models of a Hugging Face family.
struct Architecture {
  std::string name;  ///< general.architecture; empty: llama.cpp has none for the family
  /// llama.cpp rotates adjacent elements of a head, so rows of queries and keys are reordered.
  bool rotates_pairs = false;
};
Architecture architecture_of(std::string_view family);

/// Throws kFailedPrecondition unless llama.cpp computes the same logits from a file; names what it lacks.
void check_model(std::string_view family, const nn::ModelConfig& model);

/// Adds the keys of the architecture. A llama model whose layers all have a sliding window gets the window as
/// its context_length, because llama.cpp has no windows there: within that length they have no effect.
void add_model(std::string_view family, const nn::ModelConfig& model, Metadata* metadata);

}  // namespace hawser::checkpoint::gguf
