// Where a model that ends in a score is read: one position of a row.
#pragma once

#include "engine/execute/step_values.h"

namespace hawser::train {

/// Leaves each row one target: at the last token that is learned, which is the target of the position before
/// it. A row without targets, or whose last one is in the last column, so that its token is no input, has
/// none then.
void mark_scored_tokens(const MicroBatch& whole_rows);

}  // namespace hawser::train
