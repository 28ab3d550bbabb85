// Waits: computes which transfers each instruction waits for. The compute lane reaches every instruction in
// turn: it runs its own and queues transfers on their lanes, which run in parallel with it and with each
// other. An instruction therefore waits only for transfers of other lanes, and only if both use the same
// bytes of a space and at least one writes them. The bytes may belong to the same slot, or to another slot
// that reuses them. An instruction of the host's processor waits by itself: what the compute lane has waited
// for is done for the device, but not for the host.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory_resource>
#include <vector>

#include "engine/plan/early_plan.h"
#include "engine/plan/plan.h"

namespace hawser::plan {
namespace {

/// For each byte of the arena, the last transfer of one lane that uses it, until an instruction has waited
/// for that transfer.
class NewestTransfer {
 public:
  /// `memory` must outlive this object.
  explicit NewestTransfer(std::pmr::memory_resource* memory) : ranges_(memory) {}

  /// Records that transfer `at`, newer than all recorded ones, uses [begin, end).
  void use(int64_t begin, int64_t end, int32_t at) {
    split(begin);
    split(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_[begin] = {end, at};
  }

  /// Returns the last transfer after `done` in [begin, end); -1 if none. Removes those up to `over`, which is
  /// at most `done`.
  int32_t find(int64_t begin, int64_t end, int32_t done, int32_t over) {
    auto range = ranges_.lower_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second.end > begin) --range;
    int32_t newest = -1;
    while (range != ranges_.end() && range->first < end) {
      if (range->second.at <= over) {
        range = ranges_.erase(range);
      } else {
        newest = std::max(newest, range->second.at);
        ++range;
      }
    }
    return newest > done ? newest : -1;
  }

 private:
  struct Used {
    int64_t end;
    int32_t at;
  };

  /// Splits the range that contains `byte`, so that none crosses it.
  void split(int64_t byte) {
    const auto next = ranges_.lower_bound(byte);
    if (next == ranges_.begin()) return;
    Used& before = std::prev(next)->second;
    if (before.end <= byte) return;
    ranges_.emplace_hint(next, byte, before);
    before.end = byte;
  }

  std::pmr::map<int64_t, Used> ranges_;  // keyed by first byte; disjoint
};

/// Offset between the bytes of two spaces, so that one range of numbers has the bytes of all spaces.
constexpr int64_t kSpaceStride = int64_t{1} << 60;

template <typename Fn>
void each_use(const Plan& plan, const Instruction& n, Fn fn) {
  const auto use = [&](SlotId id, bool written) {
    const Slot& slot = plan.slot(id);
    if (slot.offset < 0) return;
    const int64_t begin = slot.offset + static_cast<int64_t>(slot.space) * kSpaceStride;
    fn(begin, begin + slot.bytes, written);
  };
  for (const Use& u : n.uses) use(u.slot, u.written);
  if (n.scratch >= 0) use(n.scratch, true);
}

}  // namespace

void assign_waits(Plan* plan) { assign_early_waits(plan, plan->instructions.size()); }

void assign_early_waits(Plan* plan, size_t end) {
  std::pmr::unsynchronized_pool_resource memory;
  std::vector<NewestTransfer> used, written;  // indexed by lane
  for (size_t l = 0; l < kLanes; ++l) used.emplace_back(&memory), written.emplace_back(&memory);
  // The last transfers that instructions so far have waited for, on the compute lane and on the host; and the
  // last that were queued.
  LaneMarks done, host_done, given;
  const bool host = std::any_of(plan->instructions.begin(), plan->instructions.end(),
                                [](const Instruction& n) { return n.on_host(); });
  for (size_t i = 0; i < end; ++i) {
    Instruction& n = plan->instructions[i];
    const auto at = static_cast<int32_t>(i);
    n.waits_for = LaneMarks();
    LaneMarks& seen = n.on_host() ? host_done : done;
    for (size_t l = 0; l < kLanes; ++l) {
      const auto lane = static_cast<Lane>(l);
      if (lane == n.lane || given[lane] <= seen[lane]) continue;
      const int32_t over = host ? std::min(done[lane], host_done[lane]) : done[lane];
      int32_t newest = -1;
      const auto look = [&](int64_t begin, int64_t end, bool writes) {
        newest = std::max(newest, (writes ? used : written)[l].find(begin, end, seen[lane], over));
      };
      each_use(*plan, n, look);
      // The instruction that overlaps with this one begins at the same time.
      if (n.overlaps_next) each_use(*plan, plan->instructions[i + 1], look);
      n.waits_for[lane] = newest;
    }
    seen.raise_to(n.waits_for);
    if (!n.is_transfer()) continue;
    given[n.lane] = at;
    for (const Use& use : n.uses) plan->slots[static_cast<size_t>(use.slot)].last_transfer[n.lane] = at;
    each_use(*plan, n, [&](int64_t begin, int64_t end, bool writes) {
      used[static_cast<size_t>(n.lane)].use(begin, end, at);
      if (writes) written[static_cast<size_t>(n.lane)].use(begin, end, at);
    });
  }
}

}  // namespace hawser::plan
