// The update on the host's processor: a pass over plans (ZeRO-Offload: Ren et al., arXiv:2101.06840, section
// 4). Masters and moments are in host memory and stay there: the CPU's kernels update them, in a lane of
// their own. What a rank updates of the gradients comes down once they are final, while the backward of other
// blocks runs; updated weights go up while the host updates the next block. The kernels compute the same on
// every processor, so no result changes.
#pragma once

#include <cstdint>

#include "engine/parallel/shard_layout.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// What is in host memory besides masters and moments.
struct OnHost {
  bool weights = false;    ///< /offload/parameters host
  bool gradients = false;  ///< /offload/gradients host (offload_gradients.h)
};

/// Gives the persistent slots of masters and moments a place in host memory. In a train plan, also moves each
/// OPTIMIZER_STEP to Lane::kHost, inserts an OFFLOAD of the block's gradients after they are final, and a
/// FETCH of the updated weights, as far as either is in the arena. An OFFLOAD of gradients that ranks sum
/// comes `prefetch` module calls after the sum was begun. For every plan of an engine, before the pass of
/// offloaded weights.
void update_on_host(plan::Plan* plan, const ShardLayout& layout, int64_t prefetch, const OnHost& also);

/// The slot in host memory of what this rank updates of a block's gradients, laid out like the moments.
plan::Slot gradients_on_host(const ShardLayout& layout, int32_t block);
/// An OFFLOAD or FETCH of the parts that the block's groups have in these two slots.
plan::Instruction move_parts(const plan::Plan& plan, const ShardLayout& layout, plan::Op op, plan::Lane lane,
                             int32_t block, plan::SlotId sent, plan::SlotId received);

/// A part of what an OFFLOAD or FETCH copies, as bytes from the beginning of its two slots.
struct MovedPart {
  int64_t inside = 0, outside = 0;  ///< of the slot in the arena, and of the other
  int64_t bytes = 0;
};

/// Returns the part of group `g` in a move between slots of these roles.
MovedPart moved_part(const ShardLayout& layout, const GroupLayout& g, plan::Role inside, plan::Role outside);
/// True if group `g` takes part in such a move.
bool takes_part(const GroupLayout& g, plan::Role outside);

/// Calls fn(part) for each part of what a move copies on this rank. Allocates nothing.
template <typename Fn>
void each_moved_part(const plan::Plan& plan, const plan::Instruction& n, const ShardLayout& layout, Fn fn) {
  const bool out = n.op == plan::Op::kOffload;
  const plan::Slot &sent = plan.slot(n[plan::Operand::kSent]),
                   &received = plan.slot(n[plan::Operand::kReceived]);
  const plan::Slot &inside = out ? sent : received, &outside = out ? received : sent;
  if (n.moved_parts == 0) return fn(MovedPart{0, 0, inside.bytes});
  for (const int32_t g : layout.groups_of(inside.block))
    if (takes_part(layout.group(g), outside.role))
      fn(moved_part(layout, layout.group(g), inside.role, outside.role));
}

}  // namespace hawser::parallel
