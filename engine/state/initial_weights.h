// Initial weights: fills the weights with which an engine starts, at random, from a checkpoint, or from a
// Hugging Face folder (/init).
#pragma once

#include <string>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

struct BaseEngine;

struct InitialWeights {
  checkpoint::hf::ExtraFiles files;  ///< extra files that came with the weights
  std::string base_json = "{}";      ///< the base that checkpoints leave out (base_weights.h)
  bool has_adapter = false;          ///< the weights came with an adapter
  std::string digests;               ///< digests of the source of the weights, for references (references.h)
};

/// Fills the weights of all ranks. `on`: the engine that already has the base, or null. Throws an error if
/// /init/from is wrong, and kCheckpointIncompatible if the adapter was trained on another base. Collective.
InitialWeights fill_initial_weights(const Ranks& ranks, const BaseEngine* on = nullptr);

}  // namespace hawser::train
