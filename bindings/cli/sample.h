// Text samples of a run: what the model writes after some steps.
#pragma once

#include <cstdint>
#include <vector>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// Continues a line break (or the first token), the same for the same step. Collective where ranks are
/// several processes. Returns the status of hws_engine_generate; after HWS_CANCELLED the run has been told to
/// stop.
int32_t draw_sample(hws_engine* engine, int64_t step, std::vector<int32_t>* tokens);

}  // namespace hawser::cli
