// train_once: a function that makes one attempt of `hawser train`: it checks the command line, opens or
// resumes the run, and trains to its end.
#pragma once

#include <cstdint>
#include <functional>

#include "bindings/cli/commands.h"

namespace hawser::cli {

/// Begins the run in options.out or resumes the one in options.resume. With options.elastic it does either,
/// depending on the folder, with options.ranks.world ranks. Calls `began` with the starting step just before
/// the first step. Returns the exit code. Throws only after engine and comm have been destroyed.
int train_once(const TrainOptions& options, const std::function<void(int64_t step)>& began);

}  // namespace hawser::cli
