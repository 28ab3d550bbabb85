// BatchSource: the interface from which a step loads its micro-batches. batch_sources.h has the
// implementations.
#pragma once

#include <cstdint>

#include "engine/execute/step_values.h"

namespace hawser::train {

/// Fills the micro-batches of one rank. It fills weights only if out.weights is not null, and it allocates
/// nothing.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual void load(int32_t micro_batch, const MicroBatch& out) = 0;
  /// Returns how many of `seq` columns the rows of the micro-batch need in training. The other columns hold
  /// no target and are not computed. Ranks that compute a micro-batch together get the same number.
  virtual int64_t columns(int32_t /*micro_batch*/, int64_t /*batch*/, int64_t seq) const { return seq; }
};

}  // namespace hawser::train
