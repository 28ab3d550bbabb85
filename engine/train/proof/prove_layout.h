// The proof of a layout, for users: their config, shrunk to seconds, on their own arrangement of ranks as
// threads of this process, against one rank that plays all of them in turn (played_ranks.h), and against as
// many ranks of plain data parallelism that add up in the same order.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/config_tree.h"

namespace hawser::train {

/// `config` with a model, batch and mesh small enough to run at once; what the layout does stays: stage,
/// reduce, resharding, order of sums, types, dropout, frozen patterns that still match. *changes: a JSON
/// array of
/// {"pointer", "from", "to"}.
config::ConfigTree shrink_for_proof(const config::ConfigTree& config, std::string* changes);

/// Runs `steps` steps of all three and compares losses, gradient norms, raw gradients, weights and moments.
/// JSON:
///   equal             true: every bit (but for the played rank's norm, which may differ by 1e-12 of itself)
///   first_difference  null, or {step, what, tensor, index, ranks, and the other side: one_rank or plain}
///   same_bits         settings, by pointer, of the plain data parallelism whose bits these are, for the
///                     config as it was given
///   tensors, elements how much was compared
///   distance_to_f64   of the first gradients, relative to the largest element of their tensor: what the
///                     ranks computed, and f32 sums of the same micro-batches in ascending and descending
///                     order. Ranks beside one plain rank lie as far apart as two such orders (promise L4).
///   ranks, steps, shrunk
/// Throws as an engine's creation does, and kConfigInvalid where there is one rank only.
std::string prove_layout(const config::ConfigTree& config, int64_t steps);

}  // namespace hawser::train
