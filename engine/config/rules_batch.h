// Batch rules: divide a global batch into rows of a micro-batch x micro-batches x data-parallel ranks.
#pragma once

#include <cstdint>
#include <span>

#include "engine/config/rules.h"

namespace hawser::config {

constexpr int64_t kMostRanks = 1 << 20;

/// Returns dp_replicate * dp_shard, capped at kMostRanks (a check refuses more). Both must have a value.
int64_t data_parallel_ranks(const Effective& c);

/// True if the objective needs pairs of rows. Its kind may be without a value.
bool learns_from_pairs(const Effective& c);

// These derive values (Derivation::value).
Value usual_micro_batch(const Effective& c);
Value usual_grad_accum_steps(const Effective& c);
Value product_of_batch(const Effective& c);

std::span<const Check> batch_checks();

}  // namespace hawser::config
