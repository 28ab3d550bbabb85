// The gradient norm over distinct parameter elements, independent of how they are laid out.
#pragma once

#include <cstdint>

#include "engine/nn/parameter.h"
#include "kernels/include/table.h"

namespace hawser::optim {

/// fp64 partials needed by grad_norm for the largest parameter.
int64_t grad_norm_partials(const nn::ParameterTable& table);

/// sqrt of the sum of squares of gradients (flat f32 buffer). Blocks of kNormBlock elements of each
/// parameter, in order: the same bits for any sharding whose shards begin at a block. partial: fp64
/// [grad_norm_partials].
double grad_norm(const nn::ParameterTable& table, const float* gradients, double* partial,
                 const kernels::KernelTable& kernels, Stream& stream);

}  // namespace hawser::optim
