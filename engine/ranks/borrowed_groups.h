// Borrowed groups: finds the frozen weights of an adapter in the memory of another engine (base_engine.h).
#pragma once

#include <vector>

#include "engine/nn/parameter.h"
#include "engine/parallel/shard_layout.h"
#include "engine/ranks/rank.h"

namespace hawser::train {

/// Returns the borrowed groups, indexed by group of `table`. Entries of groups that this engine has itself
/// are empty. `base` is the rank of the other engine with the same number. Throws kConfigInvalid if that
/// engine stores the weights in another order or type, on another stage, or divided differently.
std::vector<BorrowedGroup> borrow_groups(const Rank& base, const nn::ParameterTable& table,
                                         const parallel::ShardLayout& layout);

/// Returns the address of each group's weights; null if the group is not borrowed.
std::vector<const char*> lent_weights(const std::vector<BorrowedGroup>& groups);

}  // namespace hawser::train
