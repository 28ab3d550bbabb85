// follow: a function that trains on a rank other than 0. It makes the same collective calls as rank 0, and
// prints and writes nothing.
#pragma once

#include <cstdint>

#include "bindings/cli/train/prompt_samples.h"
#include "capi/include/hawser.h"

namespace hawser::cli {

/// Trains to the end or an interruption, and takes part in the samples that rank 0 draws and in the answers
/// to `samples`. Returns the exit code; throws Failure on an error.
int follow(hws_engine* engine, int64_t sample_every, const PromptSamples& samples);

}  // namespace hawser::cli
