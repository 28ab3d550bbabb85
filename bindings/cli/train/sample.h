// Draws text samples of a run: texts that the model generates after some steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// True if the model can read text now. A tokenizer needs the text module; without it a run continues without
/// samples.
bool can_draw_samples(const hws_engine* engine);

/// Continues a line break (or the first token) and sets *text to the text after it. The result depends only
/// on the model and the step. Collective if ranks are in several processes. Returns the status of
/// hws_engine_generate; after HWS_CANCELLED the run has been cancelled too.
int32_t draw_sample(hws_engine* engine, int64_t step, std::string* text);

/// Appends the tokens that the model generates to *tokens. Returns the status of hws_engine_generate; after
/// HWS_CANCELLED the run has been cancelled too.
int32_t generate_tokens(hws_engine* engine, const hws_generate_request& request,
                        std::vector<int32_t>* tokens);

}  // namespace hawser::cli
