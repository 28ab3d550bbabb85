// The table of ops: for each, its name, what kind of work it is, and the operands that it reads and writes.
// A new op is a row here and a case in the executor (train/step/executor.cc): printing, memory plan, waits,
// segments and simulator ask the table.
#pragma once

#include <array>
#include <cstdint>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// How many slots of a kind an instruction names.
enum class Count : uint8_t { kNone, kOne, kMaybe, kSome, kAny };  ///< 0, 1, 0 or 1, 1 or more, 0 or more

struct OperandRule {
  Operand operand = Operand::kCount;
  Count count = Count::kNone;
};
using OperandRules = std::array<OperandRule, 4>;

/// Whether the host takes part, so that no device can be given the instruction beforehand.
enum class Host : uint8_t { kNever, kWithoutBlock, kAlways };

/// What an op is, and what it may cost beside time.
struct Traits {
  Host host = Host::kNever;
  bool transfer = false;  ///< it stands on a communication lane
  bool modules = false;   ///< it calls modules of the model
  bool backward = false;  ///< their backward, too
  bool flops = false;     ///< it is known how many
  bool sends = false;     ///< bytes to other ranks
  bool scratch = false;   ///< workspace
};

struct OpRow {
  Op op;
  const char* name;
  Traits traits;
  OperandRules reads, writes;
};

const OpRow& row_of(Op op);
inline const Traits& traits_of(Op op) { return row_of(op).traits; }

inline bool needs_host(const Instruction& n) {
  const Host host = traits_of(n.op).host;
  return host == Host::kAlways || (host == Host::kWithoutBlock && n.block < 0);
}

/// Throws kInternal for an instruction that has an operand or cost which its op's row lacks, lacks an operand
/// which the row demands, or stands on a lane of the wrong kind.
void check_instruction(const Plan& plan, size_t index);

}  // namespace hawser::plan
