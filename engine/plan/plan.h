// Plan: the instruction list of one rank, made once, with the lifetime and place of every slot. It can be
// printed, and the executor runs it as it stands.
//
// A plan is made in three steps: a schedule lays down instructions (serial.h), passes of the strategies
// insert theirs (engine/parallel), finish places slots and finds out who must wait for whom.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/plan/instruction.h"

namespace hawser::plan {

using MemoryByCategory = std::array<int64_t, static_cast<size_t>(Category::kCount)>;

/// The persistent slots, by role and block. Of several with the same role and block, the first.
class StateIndex {
 public:
  void add(Role role, int32_t block, SlotId id);
  SlotId find(Role role, int32_t block) const;

 private:
  std::array<std::vector<SlotId>, static_cast<size_t>(Role::kCount)> ids_;  // by block + 1; -1: none
};

struct Plan {
  static constexpr int64_t kAlign = 64;

  std::string name;
  std::vector<Slot> slots;  ///< grows by add_slot alone
  StateIndex states;
  std::vector<Instruction> instructions;
  size_t commit = 0;  ///< instructions from here on change durable state
  int64_t persistent_bytes = 0;
  int64_t peak_bytes = 0;      ///< arena bytes that this plan needs: the end of its highest slot
  MemoryByCategory at_peak{};  ///< bytes of live slots at the instruction where they are most

  const Slot& slot(SlotId id) const { return slots[static_cast<size_t>(id)]; }
  /// 0 bytes give -1, an operand that is not there.
  SlotId add_slot(Slot slot);
  /// scratch_bytes > 0 adds a workspace slot of its own.
  Instruction& add(Instruction instruction, int64_t scratch_bytes = 0);
};

/// How a pass adds to a schedule: lays its instructions down anew, with what before(i, &instruction) and
/// after(i) append to plan->instructions ahead of and behind instruction i. before may change it.
template <typename Before, typename After>
void insert_around(Plan* plan, Before before, After after) {
  std::vector<Instruction> schedule = std::exchange(plan->instructions, {});
  const size_t commit = plan->commit;
  for (size_t i = 0; i < schedule.size(); ++i) {
    if (i == commit) plan->commit = plan->instructions.size();
    before(i, &schedule[i]);
    plan->instructions.push_back(std::move(schedule[i]));
    after(i);
  }
  if (commit == schedule.size()) plan->commit = plan->instructions.size();
}

/// Checks operands, then finds lifetimes, places and waits: the plan is complete then.
void finish(Plan* plan);

/// Throws kInternal for an instruction that has an operand or cost which its op's row (op_table.h) lacks, lacks an
/// operand which the row demands, or stands on a lane of the wrong kind.
void check_operands(const Plan& plan);

/// Fills first, last, offset of each slot and the plan's byte counts. Persistent slots lie first, in order;
/// the others are placed largest first at the lowest offset free for their whole lifetime.
void assign_memory(Plan* plan);
/// Fills waits_for: an instruction waits for transfers that use bytes which it writes, or write bytes which
/// it uses. Transfers of one lane run in order, so the newest of each lane is enough, and a transfer waits
/// for those of other lanes only.
void assign_waits(Plan* plan);

/// The slot's id by name; -1 if there is none.
SlotId find_slot(const Plan& plan, std::string_view name);
/// The persistent slot of a block with this role; -1 if there is none.
SlotId find_state(const Plan& plan, Role role, int32_t block);

/// The instruction list as a table, one line each: number, op, block, micro-batch, reads -> writes, FLOPs.
std::string format_instructions(const Plan& plan);
/// "12.00 MiB".
std::string bytes_text(int64_t bytes);
/// "weights 12.0 MiB" and so on, with the total.
std::string format_memory(const Plan& plan);
/// The same as JSON text: {"instructions": [...], "slots": [...], "memory": {...}, "peak_bytes": n}.
std::string plan_json(const Plan& plan);

}  // namespace hawser::plan
