// `hawser train --elastic`: a run that outlives its ranks.
#pragma once

#include "bindings/cli/commands.h"

namespace hawser::cli {

/// Trains in options.out: begins a run there or goes on with it from its newest checkpoint, on as many ranks
/// as there are; and when ranks are lost, again with those that come then.
int run_elastic(const TrainOptions& options);

}  // namespace hawser::cli
