// State table: the arrays that optimizers keep for each trained weight from step to step, in addition to
// masters. To add an array, add a row here, and the Role and the Operand that it names. Layouts, plans, the
// executor, checkpoints, tensors and reports read the table; engine/optim/update.h states which arrays an
// optimizer keeps.
#pragma once

#include <cstddef>
#include <iterator>

#include "engine/plan/instruction.h"

namespace hawser::plan {

struct StateRow {
  const char* name;    ///< of its slots, followed by the block
  Role role;           ///< of its slots
  Operand operand;     ///< in OPTIMIZER_STEP
  const char* prefix;  ///< before a parameter's name, in checkpoints
  const char* label;   ///< in messages
};

inline constexpr StateRow kStates[] = {
    {"moment1", Role::kMoment1, Operand::kMoment1, "optimizer.m.", "moment 1"},
    {"moment2", Role::kMoment2, Operand::kMoment2, "optimizer.v.", "moment 2"},
    {"average", Role::kAverage, Operand::kAverage, "optimizer.average.", "average"},
};
inline constexpr size_t kStateCount = std::size(kStates);

/// Rows of the table, by name.
enum StateNumber : size_t { kFirstMoment, kSecondMoment, kAverageOfWeights };

}  // namespace hawser::plan
