// Tokenizer training: learns the model's own vocabulary (/data/vocabulary bpe) from the training text when a
// run begins, and reads it from the run's checkpoints when the run continues.
#pragma once

#include "engine/assembly/assemble.h"

namespace hawser::train {

/// Gives an assembly its tokenizer if the config asks for a learned one: that of the newest checkpoint below
/// /checkpoint/path, or else a newly learned one. Every process does this by itself: equal files give equal
/// bytes, and the ranks compare digests when they start.
void learn_tokenizer(Assembly* assembly);

}  // namespace hawser::train
