// Seconds of a clock that never jumps, for measuring intervals.
#pragma once

#include <chrono>

namespace hawser {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hawser
