// Ahead rows: shifts the tokens, targets and weights of a micro-batch for the depths of multi-token
// prediction (AheadRows), and counts the targets of each depth.
#pragma once

#include <cstdint>

#include "engine/execute/step_result.h"
#include "engine/execute/step_values.h"

namespace hawser::train {

/// Fills rows.ahead from the tokens, targets and weights of whole rows. A position whose shifted column is
/// beyond the end of its document gets token -1 and a masked target.
void look_ahead(const MicroBatch& rows);

/// Returns the number of unmasked targets of depth `depth`, counted from 1, in rows [first_row, first_row +
/// rows) of a batch.
int64_t count_ahead(const BatchView& batch, int64_t first_row, int64_t rows, int64_t depth);

}  // namespace hawser::train
