// Grad norm: computes the gradient norm over all distinct parameter elements. It does not depend on their
// layout, because it is an exact sum of the squares of ranges of gradients, each divided into blocks of
// kernels::kNormBlock from its start.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"
#include "kernels/include/table.h"

namespace hawser::optim {

/// Bytes of workspace that add_squares needs, for any n and any number of workers.
inline constexpr int64_t kAddSquaresWorkspaceBytes =
    kernels::kNormTasks * static_cast<int64_t>(sizeof(ExactSum));

/// Adds the squares of one range to *sum: gradients f32 or bf16 [n]. If a range is divided at multiples of
/// kernels::kNormBlock (as mesh::shard_range does), its parts add up to exactly the same sum, in any order
/// and on any ranks. workspace: ExactSum [kernels::kNormTasks], contents ignored.
void add_squares(ExactSum* sum, const void* gradients, DType type, int64_t n, ExactSum* workspace,
                 const kernels::KernelTable& kernels, Stream& stream);

/// Returns the square root of the sum: NaN or infinity if a gradient was.
double grad_norm(const ExactSum& squares);

}  // namespace hawser::optim
