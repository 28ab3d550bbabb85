// RankSums: the sums of gradients over ranks, computed by one of them from the gradients of all, with the
// order and rounding of the ranks' own sums (comm/ordered_sums.h).
#pragma once

#include <vector>

#include "engine/base/dtype.h"
#include "engine/parallel/strategy.h"

namespace hawser::train {

/// The gradients of all trainable parameter groups, in the order of the parameter table.
using GroupGradients = std::vector<std::vector<float>>;

/// Adds `from` to `to`, element by element.
void add(GroupGradients* to, const GroupGradients& from);
/// Rounds finite values to the nearest bf16, ties to even; f32: leaves them.
void round_all(GroupGradients* g, DType type);

/// Sums over ranks with the order and rounding of `strategy`. `products`: for each group, whether products
/// read its weights. Consumes `ranks`.
GroupGradients sum_over_ranks(std::vector<GroupGradients>* ranks,
                              const parallel::DataParallelStrategy& strategy,
                              const std::vector<bool>& products);

}  // namespace hawser::train
