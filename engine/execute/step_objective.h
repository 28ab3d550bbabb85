// StepObjective: the host's part in what a training step minimises. The class itself is the cross entropy of
// targets, which the device computes alone; PairObjective (pair_objective.h) is an objective over pairs of
// rows. HostExchange calls an objective at each phase of the step, so no other phase depends on its kind.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/comm/process_group.h"
#include "engine/execute/step_values.h"
#include "engine/optim/objective.h"

namespace hawser::train {

/// The part of a rank in the objective.
struct ObjectiveSetup {
  optim::ObjectiveConfig objective;
  int64_t micro_batches = 0;         ///< of this rank, in the largest step
  int64_t rows = 0;                  ///< in a micro-batch
  bool counts = true;                ///< this rank counts its examples; else another does
  comm::ProcessGroup* cp = nullptr;  ///< ranks that have the rows' other columns; null if there are none
  comm::ProcessGroup* dp = nullptr;  ///< all ranks; null for a world of one
};

/// How many int64 numbers ranks sum for the objective.
struct ObjectiveWords {
  int64_t count = 0;  ///< over all ranks, with the call of COUNT_TOKENS
  int64_t rows = 0;   ///< over context-parallel ranks, in each OBJECTIVE
  int64_t loss = 0;   ///< over all ranks, in a second call of the last GRAD_NORM
};

class StepObjective {
 public:
  virtual ~StepObjective() = default;
  static std::unique_ptr<StepObjective> make(const ObjectiveSetup& setup);
  /// `rows`: in a micro-batch.
  static ObjectiveWords words(const optim::ObjectiveConfig& objective, int64_t rows);

  /// See ObjectiveConfig.
  virtual bool weighs_targets() const { return false; }

  // The calls of a step, in their order. They allocate nothing.

  /// LOAD_MICRO_BATCH: returns where to store the reference's log-probability of each row; null if the
  /// objective has no reference.
  virtual float* references(int32_t /*micro_batch*/) { return nullptr; }
  /// Returns the number of targets by which the objective divides. Throws kDataInvalid for rows that it
  /// cannot use.
  virtual int64_t count(const MicroBatch& /*rows*/) const { return 0; }
  /// COUNT_TOKENS: begins the step with the sum of these numbers over all ranks, and its rows on all ranks.
  virtual void begin(int64_t /*counted*/, int64_t /*step_rows*/) {}
  /// OBJECTIVE: computes own.weights from the losses (negative log-probabilities) of this rank's columns.
  /// `rows` is the same micro-batch with all columns.
  virtual void apply_objective(int32_t /*micro_batch*/, const float* /*losses*/, const MicroBatch& /*rows*/,
                               const MicroBatch& /*own*/) {}
  /// The last GRAD_NORM: returns the loss, after sums over all ranks. `targets`: the sum of targets' losses.
  virtual double agree(double targets) { return targets; }
  /// Returns the rewards of the last step; zeros if the objective has none.
  virtual optim::PairRewards rewards() const { return {}; }
};

}  // namespace hawser::train
