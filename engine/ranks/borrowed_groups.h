// Where the frozen weights of an adapter are, if another engine has them (base_engine.h).
#pragma once

#include <vector>

#include "engine/nn/parameter.h"
#include "engine/parallel/shard_layout.h"
#include "engine/ranks/rank.h"

namespace hawser::train {

/// By group of `table`; empty places for groups that this engine has itself. `base` is the rank of the other
/// engine with the same number. Throws kConfigInvalid if it keeps these weights in another order or type.
std::vector<BorrowedGroup> borrow_groups(const Rank& base, const nn::ParameterTable& table,
                                         const parallel::ShardLayout& layout);

/// Where the weights of each are; null for none.
std::vector<const char*> lent_weights(const std::vector<BorrowedGroup>& groups);

}  // namespace hawser::train
