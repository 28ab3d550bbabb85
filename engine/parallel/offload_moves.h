// What the passes of offload share: the place of a slot outside the arena, and the instruction that copies
// between that place and the arena.
#pragma once

#include <algorithm>

#include "engine/parallel/offload_store.h"
#include "engine/plan/plan.h"
#include "engine/plan/state_table.h"

namespace hawser::parallel {

inline bool is_optimizer_state(const plan::Slot& slot) {
  const auto has_role = [&](const plan::StateRow& row) { return slot.role == row.role; };
  return slot.persistent &&
         (slot.role == plan::Role::kMaster || std::ranges::any_of(plan::kStates, has_role));
}

inline void place_outside(plan::Slot* slot, plan::Space space) {
  slot->space = space, slot->align = kOffloadPage, slot->bytes = whole_pages(slot->bytes);
}

/// An OFFLOAD or FETCH.
inline plan::Instruction move_instruction(plan::Op op, plan::Lane lane, int32_t block, plan::SlotId sent,
                                          plan::SlotId received) {
  plan::Instruction n;
  n.op = op, n.lane = lane, n.block = block;
  n.read(plan::Operand::kSent, sent);
  n.write(plan::Operand::kReceived, received);
  return n;
}

}  // namespace hawser::parallel
