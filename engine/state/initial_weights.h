// The weights that an engine starts with: random, from a checkpoint, or from a Hugging Face folder (/init).
#pragma once

#include <string>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

struct BaseEngine;

struct InitialWeights {
  checkpoint::hf::ExtraFiles files;  ///< extra files that came with them
  std::string base_json = "{}";      ///< what checkpoints leave out (base_weights.h)
  bool has_adapter = false;          ///< whether they came with an adapter
  std::string digests;               ///< for references (references.h): of what the weights were read from
};

/// Fills the weights of all ranks. Throws what is wrong with /init/from, and kCheckpointIncompatible for a
/// base that is not the one that the adapter was trained on. `on`: the engine that has the base already, or
/// null. Collective.
InitialWeights fill_initial_weights(const Ranks& ranks, const BaseEngine* on = nullptr);

}  // namespace hawser::train
