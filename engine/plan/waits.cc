// Who waits for whom. The compute stream runs an instruction when its turn comes; a transfer runs beside it.
// So what computes waits for transfers, and only where both use the same bytes of the arena and one writes
// them: the same slot, or another one that took its place.
#include <algorithm>
#include <iterator>
#include <map>

#include "engine/plan/plan.h"

namespace hawser::plan {
namespace {

/// The newest transfer that uses each byte of the arena, from when it was given until somebody has waited for
/// it.
class NewestTransfer {
 public:
  /// Transfer `at`, newer than all others, uses [begin, end).
  void use(int64_t begin, int64_t end, int32_t at) {
    split(begin);
    split(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_[begin] = {end, at};
  }

  /// The newest one after `done` in [begin, end); -1: none. Forgets what is not newer than `done`.
  int32_t find(int64_t begin, int64_t end, int32_t done) {
    auto range = ranges_.lower_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second.end > begin) --range;
    int32_t newest = -1;
    while (range != ranges_.end() && range->first < end) {
      if (range->second.at <= done) {
        range = ranges_.erase(range);
      } else {
        newest = std::max(newest, range->second.at);
        ++range;
      }
    }
    return newest;
  }

 private:
  struct Used {
    int64_t end;
    int32_t at;
  };

  /// No range goes on across `byte`.
  void split(int64_t byte) {
    const auto next = ranges_.lower_bound(byte);
    if (next == ranges_.begin()) return;
    Used& before = std::prev(next)->second;
    if (before.end <= byte) return;
    ranges_.emplace_hint(next, byte, before);
    before.end = byte;
  }

  std::map<int64_t, Used> ranges_;  // by first byte; disjoint
};

template <typename Fn>
void each_use(const Plan& plan, const Instruction& n, Fn fn) {
  const auto use = [&](SlotId id, bool written) {
    const Slot& slot = plan.slot(id);
    fn(slot.offset, slot.offset + slot.bytes, written);
  };
  for (SlotId id : n.reads) use(id, false);
  for (SlotId id : n.writes) use(id, true);
  if (n.scratch >= 0) use(n.scratch, true);
}

}  // namespace

void assign_waits(Plan* plan) {
  NewestTransfer used, written;
  int32_t done = -1;  // the newest transfer that has been waited for; it covers all before it
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    Instruction& n = plan->instructions[i];
    const auto at = static_cast<int32_t>(i);
    if (n.stream == StreamId::kCommunication) {
      for (const std::vector<SlotId>* ids : {&n.reads, &n.writes})
        for (SlotId id : *ids) plan->slots[static_cast<size_t>(id)].last_transfer = at;
      each_use(*plan, n, [&](int64_t begin, int64_t end, bool writes) {
        used.use(begin, end, at);
        if (writes) written.use(begin, end, at);
      });
      continue;
    }
    int32_t newest = -1;
    each_use(*plan, n, [&](int64_t begin, int64_t end, bool writes) {
      newest = std::max(newest, (writes ? used : written).find(begin, end, done));
    });
    if (newest < 0) continue;
    n.waits_for = newest;
    done = newest;
  }
}

}  // namespace hawser::plan
