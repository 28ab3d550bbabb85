// EvalObjective: what an evaluation computes from the rows of one rank. The class itself is the cross entropy
// of targets, which the plan sums alone. Rows of the config's data under an objective over pairs of answers
// also give the loss of each target, from which the objective and its rewards follow (pair_sums.h).
#pragma once

#include <cstdint>
#include <memory>

#include "engine/execute/batch_source.h"
#include "engine/optim/objective.h"
#include "engine/run/pair_sums.h"

namespace hawser::train {

class EvalObjective {
 public:
  virtual ~EvalObjective() = default;
  /// `rows`: the most in a micro-batch.
  static std::unique_ptr<EvalObjective> make(const optim::ObjectiveConfig& objective, int64_t rows,
                                             int64_t seq);

  /// Returns how many micro-batches may run at once, of the `most` that a pipeline can.
  virtual int64_t at_once(int64_t most) const { return most; }
  /// Returns where a run writes the loss of each target; null if it need not.
  virtual float* token_losses() { return nullptr; }
  /// Call before each run: returns the source to load `rows` rows from. Its rows are those of `from`.
  virtual BatchSource* load_from(BatchSource* from, int64_t /*rows*/) { return from; }
  /// Adds the rows that the last run loaded.
  virtual void add(PairSums* /*sums*/) const {}
};

}  // namespace hawser::train
