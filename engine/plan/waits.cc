// Who waits for whom. The compute stream runs an instruction when its turn comes; a transfer runs beside it.
// So what computes waits for transfers, and only where both use the same bytes of the arena and one writes
// them: the same slot, or another one that took its place.
#include <algorithm>
#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {
namespace {

struct Use {
  int64_t begin, end;
  bool written;
};

std::vector<Use> uses_of(const Plan& plan, const Instruction& n) {
  std::vector<Use> uses;
  const auto add = [&](SlotId id, bool written) {
    const Slot& slot = plan.slot(id);
    uses.push_back({slot.offset, slot.offset + slot.bytes, written});
  };
  for (SlotId id : n.reads) add(id, false);
  for (SlotId id : n.writes) add(id, true);
  if (n.scratch >= 0) add(n.scratch, true);
  return uses;
}

bool conflict(const std::vector<Use>& a, const std::vector<Use>& b) {
  for (const Use& x : a)
    for (const Use& y : b)
      if ((x.written || y.written) && x.begin < y.end && y.begin < x.end) return true;
  return false;
}

struct Transfer {
  int32_t at;
  std::vector<Use> uses;
};

}  // namespace

void assign_waits(Plan* plan) {
  std::vector<Transfer> in_flight;  // oldest first
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    Instruction& n = plan->instructions[i];
    const std::vector<Use> uses = uses_of(*plan, n);
    if (n.stream == StreamId::kCommunication) {
      for (const std::vector<SlotId>* ids : {&n.reads, &n.writes})
        for (SlotId id : *ids) plan->slots[static_cast<size_t>(id)].last_transfer = static_cast<int32_t>(i);
      in_flight.push_back({static_cast<int32_t>(i), uses});
      continue;
    }
    for (size_t t = in_flight.size(); t-- > 0;) {
      if (!conflict(in_flight[t].uses, uses)) continue;
      n.waits_for = in_flight[t].at;
      in_flight.erase(in_flight.begin(), in_flight.begin() + static_cast<std::ptrdiff_t>(t) + 1);
      break;
    }
  }
}

}  // namespace hawser::plan
