// Text samples of a run: what the model generates after some steps.
#pragma once

#include <cstdint>
#include <string>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// Whether the model reads text now: a tokenizer needs its module, and a run goes on without samples.
bool can_draw_samples(const hws_engine* engine);

/// Continues a line break (or the first token); *text: what follows it. The result depends only on the step.
/// Collective if ranks are in several processes. Returns the status of hws_engine_generate; after
/// HWS_CANCELLED the run has been told to stop.
int32_t draw_sample(hws_engine* engine, int64_t step, std::string* text);

}  // namespace hawser::cli
