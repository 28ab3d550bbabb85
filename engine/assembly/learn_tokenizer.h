// A vocabulary of the model's own (/data/vocabulary bpe): learned from the training text when a run begins,
// taken from its checkpoints when it goes on.
#pragma once

#include "engine/assembly/assemble.h"

namespace hawser::train {

/// Gives an assembly its tokenizer if the config wants one learned. The newest checkpoint below
/// /checkpoint/path has it already, if there is one. Every process does this by itself: equal files give
/// equal bytes, and the ranks compare digests when they meet.
void learn_tokenizer(Assembly* assembly);

}  // namespace hawser::train
