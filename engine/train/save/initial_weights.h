// The weights that an engine starts with: random, from a checkpoint, or from a Hugging Face folder (/init).
#pragma once

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/train/ranks/ranks.h"

namespace hawser::train {

/// Fills the weights of all ranks. Returns the extra files that came with them. Throws what is wrong with
/// /init/from. Collective.
checkpoint::hf::ExtraFiles fill_initial_weights(const Ranks& ranks);

}  // namespace hawser::train
