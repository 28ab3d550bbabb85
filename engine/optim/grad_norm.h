// The gradient norm over distinct parameter elements, independent of how they are laid out: an exact sum of
// the squares of runs of gradients, each cut into blocks of kernels::kNormBlock from its start.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"
#include "kernels/include/table.h"

namespace hawser::optim {

/// Bytes of add_squares' workspace, whatever n and the number of workers.
inline constexpr int64_t kAddSquaresWorkspaceBytes =
    kernels::kNormTasks * static_cast<int64_t>(sizeof(ExactSum));

/// *sum += the squares of one run: gradients f32 or bf16 [n]. Runs that are the parts of a longer one, cut at
/// multiples of kernels::kNormBlock (as mesh::shard_range cuts), add up to the very sum of the longer one, in
/// any order and on any ranks. workspace: ExactSum [kernels::kNormTasks], its content does not matter.
void add_squares(ExactSum* sum, const void* gradients, DType type, int64_t n, ExactSum* workspace,
                 const kernels::KernelTable& kernels, Stream& stream);

/// sqrt of the sum of squares. NaN or infinity where a gradient was.
double grad_norm(const ExactSum& squares);

}  // namespace hawser::optim
