// One go of `hawser train`: from the command line to a running TrainSession, and to its end.
#pragma once

#include <cstdint>
#include <functional>

#include "bindings/cli/commands.h"

namespace hawser::cli {

/// Begins the run in options.out or goes on with the one in options.resume; with options.elastic whichever
/// the folder calls for, on options.ranks.world ranks. Calls `began` with the step from which it goes on,
/// just before the first step. Returns the exit code. What it throws, it throws after engine and comm are
/// gone.
int train_once(const TrainOptions& options, const std::function<void(int64_t step)>& began);

}  // namespace hawser::cli
