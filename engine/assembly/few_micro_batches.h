// FewMicroBatches: the plans of a step of many micro-batches for a forecast, without planning them all. A
// stage repeats itself once its pipeline is full (plan/lengthen.h), so the plan has as many micro-batches as
// fill it, and the others are added to its instructions. Live memory is that of the full plan: activations of
// the micro-batches in flight, and the rows of all micro-batches. So is the peak, except that slots of the V
// schedules leave other gaps with other numbers of micro-batches (up to 5 % in tests).
#pragma once

#include <cstdint>

#include "engine/assembly/engine_plans.h"
#include "engine/plan/lengthen.h"

namespace hawser::train {

struct FewMicroBatches {
  int64_t planned = 1;   ///< by one rank
  int64_t left_out = 0;  ///< 0: the plan has all
  int64_t period = 1;    ///< consecutive micro-batches after which a stage repeats itself
};

/// Returns how many micro-batches a plan needs until its stages repeat themselves. `more`: periods beyond
/// what the schedule needs. Leaves none out if that would save little, or if the step never repeats itself:
/// the forwards of GPipe precede all backwards, and a tree adds gradients of ever more micro-batches.
FewMicroBatches few_micro_batches(const config::ResolvedConfig& config, int64_t more);

/// Makes a train plan complete (plan::lengthen). Returns false if it has too few micro-batches.
bool lengthen(plan::Plan* train, const FewMicroBatches& few, plan::RepeatedWaits waits);

}  // namespace hawser::train
