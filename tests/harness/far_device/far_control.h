// What tests tell the plugin of far memory, and hear from it: beside the contract with the core.
#pragma once

#include <atomic>
#include <cstdint>

namespace hawser::testing {

/// Of all far devices of the process.
struct FarControl {
  std::atomic<bool> cannot_capture{false};        ///< every capture ends in an error
  std::atomic<bool> fails_captured_fetch{false};  ///< a copy to the host fails where it is captured
  std::atomic<bool> fails_launch{false};          ///< of a graph
  std::atomic<int64_t> given{0};                  ///< kernels, copies, fills and launches that the host gave
  std::atomic<int64_t> captures{0}, launches{0}, graphs{0};  ///< graphs: alive now
};

FarControl& far_control();  ///< the plugin's; others find it by hawser_far_control()

}  // namespace hawser::testing
