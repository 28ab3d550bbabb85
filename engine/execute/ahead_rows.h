// Ahead rows: what depths of multi-token prediction read of a micro-batch (AheadRows).
#pragma once

#include <cstdint>

#include "engine/execute/step_result.h"
#include "engine/execute/step_values.h"

namespace hawser::train {

/// Fills rows.ahead from the tokens, targets and weights of whole rows. Beyond the end of a document there
/// are no tokens, and every target is masked.
void look_ahead(const MicroBatch& rows);

/// Returns the number of unmasked targets of depth `depth`, counted from 1, in rows [first_row, first_row +
/// rows) of a batch.
int64_t count_ahead(const BatchView& batch, int64_t first_row, int64_t rows, int64_t depth);

}  // namespace hawser::train
