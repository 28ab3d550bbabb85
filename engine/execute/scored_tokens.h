// Marks the one position of each row at which a score head is read.
#pragma once

#include "engine/execute/step_values.h"

namespace hawser::train {

/// Leaves each row one target. Its position is that of the token that the row's last target names, which is
/// one column to the right. A row without targets keeps none; neither does a row whose last target is in the
/// last column, because that token is not among the row's inputs.
void mark_scored_tokens(const MicroBatch& whole_rows);

}  // namespace hawser::train
