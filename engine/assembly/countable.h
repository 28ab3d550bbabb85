// Overflow check: plans count bytes in 64 bits, so a config whose counts could overflow is refused before
// anything is counted.
#pragma once

#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"

namespace hawser::train {

/// Throws kOutOfMemory if an upper bound on what a rank stores, computes with or sends in a step exceeds 2^62
/// bytes (four million TiB). The bound is generous: no real machine comes near it.
void require_countable(const nn::Model& model, const config::ResolvedConfig& config);

}  // namespace hawser::train
