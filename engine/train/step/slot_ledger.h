// SlotLedger: which slots of the arena are live now. It keeps the marks that the memory plan is held against
// (how far up, and how much at once), and in sanitizer builds it poisons every slot outside its lifetime.
//
// A slot dies with the last instruction that names it. If a transfer still uses it then, it drains: its bytes
// stay usable until that transfer is over.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/device/arena.h"
#include "engine/plan/plan.h"

namespace hawser::train {

class SlotLedger {
 public:
  /// `poisons`: the host works on the arena in place. Persistent slots of `plan` live from now on.
  SlotLedger(device::Arena* arena, bool poisons, const plan::Plan& plan);

  /// Before a run from instruction `first` on. What follows until the next one allocates nothing.
  void begin(const plan::Plan& plan, size_t first);
  /// Slots that begin to live with the instruction.
  void acquire(const plan::Plan& plan, size_t index);
  /// Slots that die with it; transfers up to `done` are over.
  void release(const plan::Plan& plan, size_t index, const plan::LaneMarks& done);
  /// Transfers up to `done` are over.
  void drain(const plan::Plan& plan, const plan::LaneMarks& done);
  /// The run ends here: whatever lives dies.
  void release_all(const plan::Plan& plan, const plan::LaneMarks& done);

  /// End of the highest slot ever live, and live bytes by category when they were most: equal to the plan's.
  int64_t high_water() const { return high_water_; }
  const plan::MemoryByCategory& live_at_peak() const { return live_at_peak_; }

 private:
  void open(const plan::Plan& plan, const plan::Slot& slot);
  void close(const plan::Plan& plan, plan::SlotId id, const plan::LaneMarks& done);
  void poison(const plan::Slot& slot);

  device::Arena& arena_;
  bool poisons_;
  std::vector<plan::SlotId> draining_;     // dead, but still used by a transfer
  int32_t acquired_ = -1, released_ = -1;  // the newest instructions whose slots were
  plan::MemoryByCategory live_{}, live_at_peak_{};
  int64_t live_bytes_ = 0, most_live_ = 0, high_water_ = 0;
};

}  // namespace hawser::train
