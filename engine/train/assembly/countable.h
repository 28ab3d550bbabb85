// Plans count bytes in 64 bits. A config whose bytes might not fit there is refused before anything is
// counted, so that no sum or product of a plan can wrap.
#pragma once

#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"

namespace hawser::train {

/// Throws kOutOfMemory where an upper bound of what a rank keeps, computes with or sends in a step is beyond
/// 2^62 bytes. The bound is generous, yet far from anything that exists: 2^62 bytes are four million TiB.
void require_countable(const nn::Model& model, const config::ResolvedConfig& config);

}  // namespace hawser::train
