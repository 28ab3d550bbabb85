// Plan: the instruction list of one rank, made once, with the lifetime and offset of every slot. It can be
// printed, and the executor runs it unchanged.
//
// A plan is made in three steps. A schedule emits instructions (serial.h). Passes of the strategies insert
// theirs (engine/parallel). finish assigns offsets to the slots and computes which transfers each instruction
// waits for.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/kernel_calls.h"
#include "engine/plan/instruction.h"

namespace hawser::plan {

using MemoryByCategory = std::array<int64_t, static_cast<size_t>(Category::kCount)>;

/// Finds persistent slots by role and block; if several have the same role and block, it finds the first.
class StateIndex {
 public:
  void add(Role role, int32_t block, SlotId id);
  SlotId find(Role role, int32_t block) const;

 private:
  // Indexed by block + 1; -1 means none.
  std::array<std::vector<SlotId>, static_cast<size_t>(Role::kCount)> ids_;
};

/// Instructions [begin, end) of the compute lane that can be submitted to a device as one piece (segments.h).
struct Segment {
  size_t begin = 0, end = 0;
  bool operator==(const Segment&) const = default;
};
/// What stops a device from capturing a plan's segments as graphs, as far as it is known when the plan is
/// made.
enum class NoGraphs : uint8_t {
  kNone,           ///< nothing
  kOff,            ///< the device cannot capture, or the config wants no graphs
  kHostExchanges,  ///< exchanges inside blocks go through the host, which takes no part in a graph
  kPositions,      ///< each run has other positions in the caches of keys and values (generation)
};

/// In Plan::crosses_from: no transfer of the lane crosses the border.
inline constexpr int32_t kNeverCrosses = std::numeric_limits<int32_t>::max();

struct Plan {
  static constexpr int64_t kAlign = 64;

  std::string name;
  int64_t micro_batches = 0;  ///< of a training step on one rank; 0 for other plans
  std::vector<Slot> slots;    ///< append only with add_slot
  StateIndex states;
  std::vector<Instruction> instructions;
  std::vector<Work> work;  ///< what instructions compute; equal ones share an entry
  size_t commit = 0;       ///< first instruction that changes durable state
  /// For each lane, the first transfer that crosses the border at `commit`: it may still run when the
  /// gradient phase ends (assign_border). All later transfers of the lane in that phase cross it too.
  LaneMarks crosses_from = LaneMarks(kNeverCrosses);
  /// The segments before and after `commit`, in order.
  std::vector<Segment> segments;
  NoGraphs no_graphs = NoGraphs::kNone;
  int64_t persistent_bytes = 0;
  int64_t peak_bytes = 0;      ///< arena bytes of this plan: the end of its highest slot
  BytesBySpace outside{};      ///< bytes of this plan in the other spaces: the end of the highest slot there
  MemoryByCategory at_peak{};  ///< live bytes by category at the instruction where their sum is largest

  const Slot& slot(SlotId id) const { return slots[static_cast<size_t>(id)]; }
  /// Adds a slot and returns its id; for 0 bytes returns -1, an absent operand, except for kWeightShards.
  SlotId add_slot(Slot slot);
  /// True if transfer i may still run when the gradient phase ends.
  bool crosses(size_t i) const {
    return i < commit && static_cast<int32_t>(i) >= crosses_from[instructions[i].lane];
  }
  bool has_crossing() const { return crosses_from != LaneMarks(kNeverCrosses); }
  /// Returns for each lane the last transfer that is over when instructions from `begin` on begin to run,
  /// where `begin` is 0 or `commit`.
  LaneMarks over_before(size_t begin) const;
  /// Returns the index of `of` in `work`, which it may extend; -1 if there are no calls.
  int32_t add_work(const Work& of);
  /// Adds an instruction; scratch_bytes > 0 also adds a workspace slot.
  Instruction& add(Instruction instruction, int64_t scratch_bytes = 0);
};

/// Rebuilds the instruction list for a pass: before(i, &instruction) and after(i) may append to
/// plan->instructions before and after instruction i. before may also change the instruction. Overlapped
/// instructions stay adjacent.
template <typename Before, typename After>
void insert_around(Plan* plan, Before before, After after) {
  std::vector<Instruction> schedule = std::exchange(plan->instructions, {});
  const size_t commit = plan->commit;
  for (size_t i = 0; i < schedule.size();) {
    if (i == commit) plan->commit = plan->instructions.size();
    const size_t end = i + (schedule[i].overlaps_next ? 2 : 1);
    for (size_t k = i; k < end; ++k) before(k, &schedule[k]);
    for (size_t k = i; k < end; ++k) plan->instructions.push_back(std::move(schedule[k]));
    for (; i < end; ++i) after(i);
  }
  if (commit == schedule.size()) plan->commit = plan->instructions.size();
}

/// Makes each of two overlapped instructions hold the slots that the other uses. finish calls this.
void hold_pairs(Plan* plan);
/// Checks operands and computes lifetimes, offsets, waits and segments. This completes the plan.
void finish(Plan* plan);

/// Throws kInternal for an instruction with an operand or cost that its op's row (op_table.h) does not allow,
/// without an operand that the row requires, or on the wrong kind of lane.
void check_operands(const Plan& plan);
/// Throws kInternal for an instruction that reads a transient slot before any instruction has written it, or
/// that reduces the gradients of one micro-batch after another micro-batch has overwritten them.
void check_contents(const Plan& plan);

/// Sets first, last and offset of each slot, and the plan's byte counts. In each space persistent slots come
/// first, in order. Transient slots are placed largest first, each at the lowest offset of its space that is
/// free for its whole lifetime.
void assign_memory(Plan* plan);
/// Sets waits_for: an instruction waits for transfers that use bytes that it writes, or write bytes that it
/// uses. Transfers of one lane run in order, so waiting for the last of each lane is enough, and a transfer
/// waits only for lanes other than its own.
void assign_waits(Plan* plan);

/// Sets crosses_from. Only a FETCH crosses the border at `commit`, because no other rank takes part in it,
/// and only if its slot in the arena is used in the update phase. All other transfers are over when a phase
/// ends. Throws kInternal if one of them is behind such a FETCH in its lane. Needs the lifetimes of slots.
void assign_border(Plan* plan);

/// Returns the id of the slot with this name; -1 if there is none.
SlotId find_slot(const Plan& plan, std::string_view name);
/// Returns the persistent slot of a block with this role; -1 if there is none.
SlotId find_state(const Plan& plan, Role role, int32_t block);

/// Returns the number of bytes that an OFFLOAD or FETCH copies.
int64_t moved_bytes(const Plan& plan, const Instruction& n);
/// Returns the bytes of the plan's persistent slots of a category in `space`.
int64_t persistent_bytes(const Plan& plan, Space space, Category category);

/// Returns the instruction list as a table, one line for each: number, op, block, micro-batch, reads ->
/// writes, FLOPs.
std::string format_instructions(const Plan& plan);
/// Returns a size as text, for example "12.00 MiB".
std::string bytes_text(int64_t bytes);
/// Returns memory by category ("weights 12.0 MiB" and so on) with the total.
std::string format_memory(const Plan& plan);
/// Returns the plan as JSON text: {"instructions": [...], "slots": [...], "memory": {...}, "peak_bytes": n}.
std::string plan_json(const Plan& plan);

}  // namespace hawser::plan
