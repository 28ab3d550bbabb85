// Takes a rank's own columns out of a micro-batch of whole rows (nn/local_columns.h).
#pragma once

#include "engine/execute/step_values.h"
#include "engine/nn/local_columns.h"

namespace hawser::train {

/// Fills the arrays of `to`; it fills weights only if to->weights is not null. Targets come from the whole
/// row, so none is lost at a border between ranks. Padding is a token 0 that has no target and attends only
/// to itself.
void take_own_columns(const MicroBatch& rows, const nn::LocalColumns& own, MicroBatch* to);

}  // namespace hawser::train
