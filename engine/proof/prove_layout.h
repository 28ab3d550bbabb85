// Proves for a user that their layout of ranks trains correctly. Their config is shrunk so that it runs in
// seconds, with its ranks as threads of this process. The result is compared with one rank that plays all of
// them (serial_replay.h), and with plain data parallelism that sums in the same order.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/config_tree.h"

namespace hawser::train {

/// Shrinks the model, batch and mesh of `config` so that they run at once. Whatever affects the layout stays:
/// stages and sizes of chunks (shrink_pipeline.h), shared tables, padding of the vocabulary, ZeRO stage,
/// reduction, resharding, order of sums, data types, dropout, and frozen patterns that still match.
/// `*changes` receives a JSON array of {"pointer", "from", "to"}.
config::ConfigTree shrink_for_proof(const config::ConfigTree& config, std::string* changes);

/// Runs `steps` steps of all three and compares losses, gradient norms, raw gradients, weights and moments.
/// Slots of the ranks' arenas begin as NaN. Returns JSON:
///   equal             true if every bit agrees (the played rank's norm may differ by 1e-12 of its value),
///                     with tensor or context parallelism those of plain, and both distances are allowed
///   first_difference  null, or {step, what, tensor, index, ranks, and the other side: one_rank, plain or
///                     gradients, the norm of the gradients that the ranks return}. Each step's norm is
///                     compared with gradients.
///   same_bits         settings, by pointer, of the plain data parallelism that gives the same bits for
///                     the original config
///   distance_to_one_rank
///                     null, or with tensor or context parallelism, which adds in another order than one
///                     rank: the tensor whose first gradient comes closest to its limit, {tensor, distance,
///                     allowed, share_of_allowed}. Distances are lengths of differences. Allowed is twice the
///                     distance between one rank and a twin, one rank with heads, features and words in
///                     another order, or what the limits below leave (three times that of one rank from f64)
///                     if that is more, and a floor: 4e-6 (in bf16 2^-7, a unit) of the tensor's length and
///                     of a tenth of the gradient norm
///   distance_to_f64_model
///                     the same against the gradients of a model in f64 (f64_gradients.h). Allowed is twice
///                     the distance of one rank, and the floor. A twin sums over keys in the same order; this
///                     shows what context parallelism changes there
///   choices_of_experts
///                     null, or with experts under tensor or context parallelism {least_margin, moved}: by
///                     how much the closest choice of the model in f64 was made, relative to the score (null:
///                     all are chosen), and how many choices of the first step at least are others than those
///                     of one rank. Rounding decides where scores are nearly equal; a choice that moved
///                     changes gradients by more than is allowed
///   tensors, elements how much was compared
///   grad_norms        the gradient norm of each step
///   clipped_steps     the number of steps in which clipping changed the gradients
///   distance_to_f64   error of the first gradients relative to the largest element of their tensor, for
///                     the ranks and for f32 sums of the same micro-batches in ascending and descending
///                     order. The ranks must lie no further from one plain rank than two such orders lie
///                     from each other (promise L4).
///   ranks, steps, shrunk
/// Throws what creating an engine throws, and kConfigInvalid for a single rank.
std::string prove_layout(const config::ConfigTree& config, int64_t steps);

}  // namespace hawser::train
