// SlotLedger: tracks which slots of the arena are live. It records the high-water mark and the most live
// bytes, which tests compare with the memory plan. In sanitizer builds it poisons every slot outside its
// lifetime.
//
// A slot dies with the last instruction that names it. If a transfer still uses it, it drains: its bytes stay
// accessible until the transfer is done.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/device/arena.h"
#include "engine/plan/plan.h"

namespace hawser::train {

class SlotLedger {
 public:
  /// `poisons`: the host works on the arena in place. The persistent slots of `plan` are live from now on.
  SlotLedger(device::Arena* arena, bool poisons, const plan::Plan& plan);

  /// From now on, each slot is filled when it becomes live, with bytes that are NaN in every float type and
  /// -1 in every integer type. A result then visibly depends on any byte that is read before it is written.
  /// For tests and proofs; works only if the host accesses the arena in place.
  void fill_new_slots() { fills_ = poisons_; }

  /// Call before a run from instruction `first` on. Slots that were opened in the gradient phase for the
  /// update phase stay live. The calls below allocate nothing, until the next begin.
  void begin(const plan::Plan& plan, size_t first);
  /// Marks the slots whose lifetime begins with the instruction.
  void acquire(const plan::Plan& plan, size_t index);
  /// Ends the slots whose lifetime ends with the instruction. `done`: transfers that have completed.
  void release(const plan::Plan& plan, size_t index, const plan::LaneMarks& done);
  /// Ends draining slots whose transfers have completed.
  void drain(const plan::Plan& plan, const plan::LaneMarks& done);
  /// Ends all live slots that are not persistent.
  void release_all(const plan::Plan& plan, const plan::LaneMarks& done);

  /// Return the end of the highest slot that was ever live, and the most live bytes by category. Both equal
  /// the plan's values.
  int64_t high_water() const { return high_water_; }
  const plan::MemoryByCategory& live_at_peak() const { return live_at_peak_; }

 private:
  void open(const plan::Plan& plan, const plan::Slot& slot);
  void close(const plan::Plan& plan, plan::SlotId id, const plan::LaneMarks& done);
  bool in_flight(const plan::Plan& plan, const plan::Slot& slot) const;
  void poison(const plan::Slot& slot);

  device::Arena& arena_;
  bool poisons_, fills_ = false;
  std::vector<plan::SlotId> draining_;     // past their lifetime but still used by a transfer
  plan::LaneMarks done_;                   // transfers that have completed
  int32_t acquired_ = -1, released_ = -1;  // the last instructions passed to acquire and release
  plan::MemoryByCategory live_{}, live_at_peak_{};
  int64_t live_bytes_ = 0, most_live_ = 0, high_water_ = 0;
};

}  // namespace hawser::train
