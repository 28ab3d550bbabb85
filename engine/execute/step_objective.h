// StepObjective: the host's part in what a training step minimises. The class itself is the cross entropy of
// targets, which the device computes alone; PairObjective (pair_objective.h) is an objective over pairs of
// rows. HostExchange calls an objective at each phase of the step, so no other phase depends on its kind.
#pragma once

#include <cstdint>

#include "engine/execute/step_values.h"
#include "engine/optim/objective.h"

namespace hawser::train {

class StepObjective {
 public:
  virtual ~StepObjective() = default;

  /// True if OBJECTIVE computes the weight of each target, so that batches bring none. The loss of the step
  /// is then not the sum of its targets' losses.
  virtual bool weighs_targets() const { return false; }

  // The calls of a step, in their order. They allocate nothing.

  /// LOAD_MICRO_BATCH: returns where to store the reference's log-probability of each row; null if the
  /// objective has no reference.
  virtual float* references(int32_t /*micro_batch*/) { return nullptr; }
  /// Returns the number of targets by which the objective divides. Throws kDataInvalid for rows that it
  /// cannot use.
  virtual int64_t count(const MicroBatch& /*rows*/) const { return 0; }
  /// COUNT_TOKENS: begins the step with the sum of these numbers over all ranks.
  virtual void begin(int64_t /*counted*/) {}
  /// OBJECTIVE: computes own.weights from the losses (negative log-probabilities) of this rank's columns.
  /// `rows` is the same micro-batch with all columns.
  virtual void apply_objective(int32_t /*micro_batch*/, const float* /*losses*/, const MicroBatch& /*rows*/,
                               const MicroBatch& /*own*/) {}
  /// The last GRAD_NORM: returns the loss, after sums over all ranks. `targets`: the sum of targets' losses.
  virtual double agree(double targets) { return targets; }
  /// Returns the rewards of the last step; zeros without pairs.
  virtual optim::PairRewards rewards() const { return {}; }
};

}  // namespace hawser::train
