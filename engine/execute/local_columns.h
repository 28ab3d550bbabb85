// Takes a rank's own columns out of a micro-batch of whole rows (nn/local_columns.h).
#pragma once

#include "engine/execute/step_values.h"
#include "engine/nn/local_columns.h"

namespace hawser::train {

/// Fills the arrays of `to`, weights if both have them. Targets come from the whole row, so none is lost at a
/// border. Padding is a token 0 that has no target and sees only itself.
void take_own_columns(const MicroBatch& rows, const nn::LocalColumns& own, MicroBatch* to);

}  // namespace hawser::train
