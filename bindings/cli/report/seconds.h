// Reads seconds from the steady clock, which never jumps.
#pragma once

#include <chrono>

namespace hawser::cli {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace hawser::cli
