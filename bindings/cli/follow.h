// Training along as a rank other than 0: the same collective calls as rank 0 makes, nothing printed or
// written.
#pragma once

#include <cstdint>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// Trains to the end or an interruption, drawing the samples that rank 0 draws. Returns the exit code; throws
/// Failure for a failure.
int follow(hws_engine* engine, int64_t sample_every);

}  // namespace hawser::cli
