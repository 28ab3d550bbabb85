// BatchSource: where a step's micro-batches come from. Its implementations stand in batch_sources.h.
#pragma once

#include <cstdint>

#include "engine/train/step/step_values.h"

namespace hawser::train {

/// Fills micro-batches of one rank. Allocates nothing.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual void load(int32_t micro_batch, const MicroBatch& out) = 0;
};

}  // namespace hawser::train
