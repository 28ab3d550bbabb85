// Kept moments: optimizers of all kinds that keep the first `count` moments in f32.
#pragma once

#include "engine/optim/update.h"

namespace hawser::testing {

inline optim::StatesByKind kept_moments(int64_t count) {
  optim::StatesByKind all;
  for (optim::StateTypes& types : all)
    for (int64_t i = 0; i < count; ++i) types[static_cast<size_t>(i)] = DType::kF32;
  return all;
}

}  // namespace hawser::testing
