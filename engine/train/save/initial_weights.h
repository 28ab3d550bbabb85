// The weights that an engine starts with: drawn, of a checkpoint, or of a Hugging Face folder (/init).
#pragma once

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/train/ranks/ranks.h"

namespace hawser::train {

/// Fills the weights of all ranks; the files that came along with them. Throws what is wrong with /init/from.
/// Collective.
checkpoint::hf::ExtraFiles fill_initial_weights(const Ranks& ranks);

}  // namespace hawser::train
