// Plan: the instruction list of one rank, made once, with the lifetime and place of every slot. It can be
// printed, and the executor runs it as it stands.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/instruction.h"

namespace hawser::plan {

using MemoryByCategory = std::array<int64_t, static_cast<size_t>(Category::kCount)>;

struct Plan {
  std::string name;
  std::vector<Slot> slots;
  std::vector<Instruction> instructions;
  size_t commit = 0;  ///< instructions from here on change durable state
  int64_t persistent_bytes = 0;
  int64_t peak_bytes = 0;      ///< arena bytes that this plan needs: the end of its highest slot
  MemoryByCategory at_peak{};  ///< bytes of live slots at the instruction where they are most
};

/// Makes plans: add slots and instructions, then finish.
class PlanBuilder {
 public:
  static constexpr int64_t kAlign = 64;

  explicit PlanBuilder(std::string name) { plan_.name = std::move(name); }

  /// 0 bytes give -1, an operand that is not there.
  SlotId persistent(std::string name, Category category, int64_t bytes);
  SlotId transient(std::string name, Category category, int64_t bytes);
  /// Operands of -1 are left out; scratch_bytes > 0 adds a workspace slot of its own.
  void add(Op op, int32_t micro_batch, int32_t block, std::vector<SlotId> reads, std::vector<SlotId> writes,
           int64_t scratch_bytes = 0, double flops = 0);
  /// Everything added from here on is durable.
  void commit_begins() { plan_.commit = plan_.instructions.size(); }
  /// Assigns lifetimes and offsets (memory_plan.cc).
  Plan finish();

 private:
  SlotId slot(std::string name, Category category, int64_t bytes, bool persistent);
  Plan plan_;
};

/// Fills first, last, offset of each slot and the plan's byte counts. Persistent slots lie first, in order;
/// the others are placed largest first at the lowest offset free for their whole lifetime.
void assign_memory(Plan* plan);

/// The slot's id by name; -1 if there is none.
SlotId find_slot(const Plan& plan, std::string_view name);

/// The instruction list as a table, one line each: number, op, block, micro-batch, reads -> writes, FLOPs.
std::string format_instructions(const Plan& plan);
/// "weights 12.0 MiB" and so on, with the total.
std::string format_memory(const Plan& plan);
/// The same as JSON text: {"instructions": [...], "slots": [...], "memory": {...}, "peak_bytes": n}.
std::string plan_json(const Plan& plan);

}  // namespace hawser::plan
