// Layout proof: shows a user that their layout of ranks trains correctly. Their config is shrunk so that it
// runs in seconds, with its ranks as threads of this process. The result is compared with a serial replay of
// all ranks on one rank (serial_replay.h), and with plain data parallelism that sums in the same order.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/config_tree.h"

namespace hawser::train {

/// Shrinks the model, batch and mesh of `config` so that a step is fast. Everything that affects the
/// layout stays: stages and sizes of chunks (shrink_pipeline.h), shared tables, padding of the vocabulary,
/// ZeRO stage, reduction, resharding, order of sums, data types, dropout, and frozen patterns that still
/// match. A batch ramp keeps two sizes: the second step has the smallest, all others the largest.
/// `*changes` receives a JSON array of {"pointer", "from", "to"}.
config::ConfigTree shrink_for_proof(const config::ConfigTree& config, std::string* changes);

/// Runs `steps` steps on the ranks, in the serial replay and with plain data parallelism, and compares
/// losses, gradient norms, raw gradients, weights and moments. Slots of the ranks' arenas begin as NaN.
/// Returns JSON:
///   equal             true if the ranks have the bits of the serial replay (whose norm may differ by 1e-12
///                     of its value) and of plain data parallelism. With tensor, context or expert
///                     parallelism, which add in another order than one rank, true if the ranks have the bits
///                     of plain data parallelism with the same tp, cp and ep, and both distances below are
///                     within their limits
///   first_difference  null, or {step, what, tensor, index, ranks, and the value of the other side: one_rank,
///                     plain, or gradients, which is the norm of the gradients that the ranks return}. The
///                     norm of each step is compared with gradients.
///   same_bits         settings, by pointer, of the plain data parallelism that gives the same bits for
///                     the original config
///   distance_to_one_rank
///                     null without tensor, context and expert parallelism; otherwise the tensor whose first
///                     gradient comes closest to its limit: {tensor, distance, allowed, share_of_allowed}.
///                     Distances are lengths of differences. The limit is a floor plus twice the distance
///                     between one rank and a twin (one rank with heads, features and vocabulary in another
///                     order), or plus three times the distance of one rank from f64 if that is more. The
///                     floor is 4e-6 (in bf16 2^-7, a unit) of the tensor's length and of a tenth of the
///                     gradient norm
///   distance_to_f64_model
///                     the same for the distance to the gradients of a model in f64 (f64_gradients.h). The
///                     limit is the floor plus twice the distance of one rank. A twin sums over keys in the
///                     same order as one rank, so only this distance shows what context parallelism changes
///                     there
///   choices_of_experts
///                     null without experts, or without tensor, context and expert parallelism; otherwise
///                     {least_margin, moved}. least_margin: by how much the closest choice of the model in
///                     f64 was made, relative to the score (null: all experts are chosen). moved: how many
///                     choices of the first step differ from those of one rank, at least. Rounding decides
///                     between nearly equal scores; a choice that moved changes gradients by more than the
///                     limits
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
