// Gradients in host memory: a pass over plans (ZeRO-Offload: Ren et al., arXiv:2101.06840, section 4). The
// gradients that the host's processor will update are in host memory; the arena has those of the blocks whose
// backward runs. Where ranks reduce every micro-batch, each one's sum comes down, and the host's processor
// adds it to those before. A single rank adds in its backwards, so the sum of the micro-batches before is
// fetched first. The norm of these gradients is taken on the host. The pass changes the order of no sum.
#pragma once

#include <cstdint>

#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Moves the gradients that updates read to host memory, and with them ADD_GRAD and the GRAD_NORM of blocks
/// to Lane::kHost. `prefetch`: module calls between an instruction and the copy or the sum that needs its
/// result. Throws kConfigInvalid if several ranks add micro-batches before they reduce them. For every plan
/// of an engine, before update_on_host.
void offload_gradients(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& strategy,
                       int64_t micro_batches, int64_t prefetch);

}  // namespace hawser::parallel
