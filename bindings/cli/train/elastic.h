// run_elastic: runs `hawser train --elastic`, which survives the loss of ranks.
#pragma once

#include "bindings/cli/commands.h"

namespace hawser::cli {

/// Trains in options.out: begins a run there or resumes it from its newest checkpoint, with the available
/// ranks. After losing ranks it continues with those that arrive at the next meeting.
int run_elastic(const TrainOptions& options);

}  // namespace hawser::cli
